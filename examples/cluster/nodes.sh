#!/usr/bin/env bash
# Three nodes of an IPFS Cluster on this machine, to try things. A node is a Kubo and its cluster peer.
#
#   nodes.sh start      start the nodes that are not running; the first time, make them
#   nodes.sh status     show the nodes and their addresses
#   nodes.sh kill 2     kill node 2 at once, as a power cut does
#   nodes.sh stop       stop all nodes
#
# Needs ipfs (Kubo), ipfs-cluster-service, curl and python3. All files are in the folder NODES
# (./nodes). The nodes use only addresses of this machine, and not the public IPFS network. Their
# ports begin at FIRST_PORT (19000). The file NODES/token has the user and the password of the
# cluster's API: a provider_token.

set -euo pipefail
umask 077 # the files hold keys

NODES=${NODES:-$PWD/nodes}
FIRST_PORT=${FIRST_PORT:-19000}
ALL="1 2 3"

main() {
    case "${1:-} ${2:-}" in
    "start ") start ;;
    "status ") status ;;
    "kill "[123]) end "$2" KILL ;;
    "stop ") for node in $ALL; do end "$node" TERM; done ;;
    *) sed -n '/^#   /s/^#   //p' "$0" >&2; exit 2 ;;
    esac
}

# Ports of node N: FIRST_PORT + 10 N, and for each use
kubo_api() { echo $((FIRST_PORT + 10 * $1)); }
gateway() { echo $((FIRST_PORT + 10 * $1 + 1)); }
kubo_swarm() { echo $((FIRST_PORT + 10 * $1 + 2)); }
cluster_api() { echo $((FIRST_PORT + 10 * $1 + 3)); }
cluster_swarm() { echo $((FIRST_PORT + 10 * $1 + 4)); }
listen() { echo "/ip4/127.0.0.1/tcp/$1"; }

start() {
    if [ ! -e "$NODES/complete" ]; then
        make_nodes
    fi
    for node in $ALL; do
        if ! runs "$node" kubo; then
            run "$node" kubo ipfs daemon
        fi
    done
    for node in $ALL; do
        wait_for "Kubo of node $node" curl -sf -X POST "http://127.0.0.1:$(kubo_api "$node")/api/v0/id"
        if ! runs "$node" peer; then
            run "$node" peer ipfs-cluster-service daemon --bootstrap "$(others "$node")"
        fi
    done
    for node in $ALL; do
        wait_for "the peer of node $node" knows_all "$node"
    done
    status
}

status() {
    for node in $ALL; do
        for part in kubo peer; do
            if runs "$node" $part; then state=running; else state=stopped; fi
            if [ $part = kubo ]; then port=$(gateway "$node"); else port=$(cluster_api "$node"); fi
            echo "node $node  $part  $state  http://127.0.0.1:$port"
        done
    done
}

end() { # NODE SIGNAL: end the processes of a node
    for part in peer kubo; do
        if runs "$1" $part; then
            kill -"$2" "$(cat "$NODES/$1/$part.pid")"
            wait_for "the end of the $part of node $1" is_gone "$1" $part
        fi
    done
}

make_nodes() {
    for program in ipfs ipfs-cluster-service curl python3; do
        command -v $program > /dev/null || fail "$program is not on the PATH: install it"
    done
    mkdir -p "$NODES"
    [ -z "$(ls -A "$NODES")" ] || fail "$NODES is not empty: remove it, or set NODES"
    random_hex > "$NODES/secret"
    echo "holdfast:$(random_hex)" > "$NODES/token"
    for node in $ALL; do
        mkdir "$NODES/$node"
        use "$node"
        make_kubo "$node"
        make_peer
    done
    for node in $ALL; do
        use "$node"
        ipfs config --json Peering.Peers "$(other_kubos "$node")"
    done
    touch "$NODES/complete"
}

make_kubo() { # for node $1
    ipfs init --profile=test,autoconf-off > /dev/null # private: it knows no other node
    ipfs config Addresses.API "$(listen "$(kubo_api "$1")")"
    ipfs config Addresses.Gateway "$(listen "$(gateway "$1")")"
    ipfs config --json Addresses.Swarm "[\"$(listen "$(kubo_swarm "$1")")\"]"
    ipfs config Routing.Type none
}

make_peer() {
    ipfs-cluster-service init --consensus crdt > /dev/null 2>&1
    # The other APIs of a peer are not needed, and one of them asks for no password.
    python3 - "$IPFS_CLUSTER_PATH/service.json" << 'END'
import json, sys
with open(sys.argv[1]) as file:
    settings = json.load(file)
settings["api"] = {"restapi": settings["api"]["restapi"]}
with open(sys.argv[1], "w") as file:
    json.dump(settings, file, indent=2)
END
}

use() { # NODE: export the settings of a node
    export IPFS_PATH="$NODES/$1/kubo" IPFS_TELEMETRY=off IPFS_CLUSTER_PATH="$NODES/$1/peer"
    CLUSTER_SECRET=$(cat "$NODES/secret")
    CLUSTER_RESTAPI_BASICAUTHCREDENTIALS=$(cat "$NODES/token")
    CLUSTER_LISTENMULTIADDRESS=$(listen "$(cluster_swarm "$1")")
    CLUSTER_RESTAPI_HTTPLISTENMULTIADDRESS=$(listen "$(cluster_api "$1")")
    CLUSTER_IPFSHTTP_NODEMULTIADDRESS=$(listen "$(kubo_api "$1")")
    export CLUSTER_SECRET CLUSTER_RESTAPI_BASICAUTHCREDENTIALS CLUSTER_LISTENMULTIADDRESS
    export CLUSTER_RESTAPI_HTTPLISTENMULTIADDRESS CLUSTER_IPFSHTTP_NODEMULTIADDRESS
    export CLUSTER_PEERNAME="node$1"
    export CLUSTER_REPLICATIONFACTORMIN=2 CLUSTER_REPLICATIONFACTORMAX=2
    export CLUSTER_CRDT_TRUSTEDPEERS="*" # all that know the secret
    export CLUSTER_MDNSINTERVAL=0s       # peers are given by their addresses
    # Notice a dead node after seconds, not a minute.
    export CLUSTER_MONITORPINGINTERVAL=2s CLUSTER_DISK_METRICTTL=8s CLUSTER_TAGS_METRICTTL=8s
    export CLUSTER_PUBSUBMON_CHECKINTERVAL=2s CLUSTER_CRDT_REBROADCASTINTERVAL=10s
}

run() { # NODE PART COMMAND…: start a process in the background
    use "$1"
    nohup "${@:3}" > "$NODES/$1/$2.log" 2>&1 < /dev/null &
    echo $! > "$NODES/$1/$2.pid"
}

runs() { # NODE PART: whether this process runs
    [ -e "$NODES/$1/$2.pid" ] || return 1
    # Another process may have its number by now.
    [[ $(ps -o stat=,args= -p "$(cat "$NODES/$1/$2.pid")") == [!Z]*ipfs*daemon* ]]
}

is_gone() { ! runs "$@"; }

others() { # NODE: the addresses of the other peers
    for other in ${ALL/$1/}; do
        echo "$(listen "$(cluster_swarm "$other")")/p2p/$(peer_id "$other")"
    done | paste -sd ,
}

peer_id() { sed -n 's/.*"id": "\(.*\)".*/\1/p' "$NODES/$1/peer/identity.json"; }

other_kubos() { # NODE: the other Kubos, which stay connected
    for other in ${ALL/$1/}; do
        id=$(IPFS_PATH="$NODES/$other/kubo" ipfs config Identity.PeerID)
        echo "{\"ID\": \"$id\", \"Addrs\": [\"$(listen "$(kubo_swarm "$other")")\"]}"
    done | paste -sd , | sed 's/.*/[&]/'
}

knows_all() { # NODE: whether its peer can place content on all nodes
    for metric in freespace tag:group; do
        url="http://127.0.0.1:$(cluster_api "$1")/monitor/metrics/$metric"
        # The password comes by a file, so that a list of processes does not show it.
        found=$(curl -sf -K - "$url" <<< "user = \"$(cat "$NODES/token")\"") || return 1
        [ "$(grep -o '"valid":true' <<< "$found" | wc -l)" -eq 3 ] || return 1
    done
}

wait_for() { # WORDS COMMAND…: repeat a command until it succeeds, for a minute at most
    for _ in $(seq 300); do
        if "${@:2}" > /dev/null 2>&1; then
            return
        fi
        sleep 0.2
    done
    fail "waited a minute for $1: see the logs in $NODES"
}

fail() {
    echo "$1" >&2
    exit 1
}

random_hex() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }

main "$@"
