module holdfast/bench

go 1.21
