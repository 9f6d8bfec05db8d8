// A server that does nothing but answer, and a client that does nothing but ask.
//
//	server serve FOLDER           a pinning API and a gateway; prints its address
//	server load KIND URL FOLDER AT_ONCE SECONDS FIRST    requests a second, as JSON
//
// FOLDER holds what bench/content.py writes: documents.jsonl; files/ and blocks/, named by their CIDs; root, the CID
// that an uploaded file gets.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const rawType = "application/vnd.ipld.raw"
const smallForm = 1 << 18 // bytes of a form whose file is one block

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func main() {
	log.SetFlags(0)
	switch {
	case len(os.Args) == 3 && os.Args[1] == "serve":
		serve(os.Args[2])
	case len(os.Args) == 8 && os.Args[1] == "load":
		load(os.Args[2], os.Args[3], os.Args[4], number(os.Args[5]), number(os.Args[6]), int(number(os.Args[7])))
	default:
		log.Fatal("usage: server serve FOLDER | server load KIND URL FOLDER AT_ONCE SECONDS FIRST")
	}
}

func number(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// rawCID returns the CIDv1 of one raw block: version 1, codec raw, SHA-256, 32 bytes.
func rawCID(data []byte) string {
	digest := sha256.Sum256(data)
	return "b" + base32Lower.EncodeToString(append([]byte{0x01, 0x55, 0x12, 0x20}, digest[:]...))
}

func readDocuments(folder string) [][]byte {
	text, err := os.ReadFile(filepath.Join(folder, "documents.jsonl"))
	check(err)
	return bytes.Split(bytes.TrimSpace(text), []byte("\n"))
}

// content is what the gateway has.
type content struct {
	blocks map[string][]byte // documents, and the inner nodes of files, by CID
	files  string            // the folder of the files
	root   string            // the CID that an uploaded file gets
	anyCID string            // the CID that a form of the third API gets
}

func readContent(folder string) *content {
	have := &content{blocks: map[string][]byte{}, files: filepath.Join(folder, "files")}
	for _, document := range readDocuments(folder) {
		have.blocks[rawCID(document)] = document
	}
	nodes, _ := filepath.Glob(filepath.Join(folder, "blocks", "*"))
	for _, node := range nodes {
		block, err := os.ReadFile(node)
		check(err)
		have.blocks[filepath.Base(node)] = block
	}
	root, _ := os.ReadFile(filepath.Join(folder, "root"))
	have.root = string(root)
	have.anyCID = rawCID(nil)
	return have
}

func serve(folder string) {
	have := readContent(folder)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Printf("http://%s\n", listener.Addr())
	check(http.Serve(listener, have))
}

func (have *content) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/v3/"):
		have.addByThirdAPI(w, r)
		return
	case r.Method == http.MethodPost:
		have.add(w, r)
		return
	}
	cid := strings.TrimPrefix(r.URL.Path, "/ipfs/")
	wantsBlock := r.URL.RawQuery == "format=raw" || r.Header.Get("Accept") == rawType
	block, found := have.blocks[cid]
	switch {
	case found && wantsBlock:
		reply(w, rawType, block)
	case found && strings.HasPrefix(cid, "bafkrei"): // a document is one raw block
		reply(w, "application/json", block)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeFile(w, r, filepath.Join(have.files, path.Base(cid)))
	}
}

// smallFile returns the raw CID and the size of the file in a small form, and no size for a large one.
func smallFile(r *http.Request) (string, int) {
	if r.ContentLength < 0 || r.ContentLength > smallForm {
		return "", 0
	}
	parts, err := r.MultipartReader()
	for err == nil {
		var part *multipart.Part
		if part, err = parts.NextPart(); err == nil && part.FileName() != "" {
			data, _ := io.ReadAll(part)
			drain(r.Body)
			return rawCID(data), len(data)
		}
	}
	return "", 0
}

// add answers an upload: the raw CID of a JSON document or a small file, and the CID of the large file for a large one.
func (have *content) add(w http.ResponseWriter, r *http.Request) {
	const answer = `{"IpfsHash":"%s","PinSize":%d,"Timestamp":"2026-01-01T00:00:00.000Z"}`
	switch r.URL.Path {
	case "/pinning/pinJSONToIPFS":
		body, err := io.ReadAll(r.Body)
		var wanted struct{ PinataContent json.RawMessage }
		if err != nil || json.Unmarshal(body, &wanted) != nil {
			http.Error(w, "not JSON", http.StatusBadRequest)
			return
		}
		reply(w, "application/json", fmt.Appendf(nil, answer, rawCID(wanted.PinataContent), len(wanted.PinataContent)))
	case "/pinning/pinFileToIPFS":
		if cid, size := smallFile(r); size > 0 {
			reply(w, "application/json", fmt.Appendf(nil, answer, cid, size))
			return
		}
		size := drain(r.Body)
		reply(w, "application/json", fmt.Appendf(nil, answer, have.root, size))
	default:
		http.NotFound(w, r)
	}
}

// addByThirdAPI answers uploads by the API that Pinata calls v3: forms, and files in parts (tus).
func (have *content) addByThirdAPI(w http.ResponseWriter, r *http.Request) {
	const file = `{"id":"1","name":"a","cid":"%s","size":%d,"number_of_files":1,"mime_type":"application/json",` +
		`"group_id":null,"created_at":"2026-01-01T00:00:00.000Z"}`
	switch {
	case r.Method == http.MethodPost && r.Header.Get("Upload-Length") != "":
		w.Header().Set("Location", "http://"+r.Host+"/v3/files/1")
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodPatch:
		drain(r.Body)
		w.Header().Set("Upload-Cid", have.root)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPost:
		size := drain(r.Body)
		reply(w, "application/json", fmt.Appendf(nil, `{"data":`+file+`}`, have.anyCID, size))
	default:
		reply(w, "application/json", fmt.Appendf(nil, `{"data":{"files":[`+file+`]}}`, have.root, 0))
	}
}

var buffers = sync.Pool{New: func() any { return new([1 << 20]byte) }}

func drain(body io.Reader) int64 {
	buffer := buffers.Get().(*[1 << 20]byte)
	defer buffers.Put(buffer)
	var size int64
	for {
		count, err := body.Read(buffer[:])
		size += int64(count)
		if err != nil {
			return size
		}
	}
}

func reply(w http.ResponseWriter, kind string, body []byte) {
	header := w.Header()
	header.Set("Content-Type", kind)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

// load sends requests for so many seconds, so many at once, and prints how many were answered a second.
func load(kind, url, folder string, atOnce, seconds float64, first int) {
	documents := readDocuments(folder)
	cids := make([]string, len(documents))
	for index, document := range documents {
		cids[index] = rawCID(document)
	}
	// A node stores a document that it has in no time: so each is a new one.
	distinct := func(index int) []byte {
		return fmt.Appendf(nil, `{"index":%d,%s`, index, documents[index%len(documents)][1:])
	}
	request := map[string]func(int) *http.Request{
		"retrieve": func(index int) *http.Request {
			made, err := http.NewRequest(http.MethodGet, url+"/ipfs/"+cids[index%len(cids)], nil)
			check(err)
			return made
		},
		"store": func(index int) *http.Request {
			body := fmt.Appendf(nil, `{"pinataContent":%s,"pinataMetadata":{"name":"bench"},"pinataOptions":{"cidVersion":1}}`, distinct(index))
			return post(url+"/pinning/pinJSONToIPFS", "application/json", body)
		},
		"kubo-add": func(index int) *http.Request {
			body := fmt.Appendf(nil, "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n"+
				"Content-Type: application/octet-stream\r\n\r\n%s\r\n--x--\r\n", distinct(index))
			return post(url+"/api/v0/add?cid-version=1&quieter=true", "multipart/form-data; boundary=x", body)
		},
	}[kind]
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: int(atOnce)}}
	numbers := make(chan int)
	var group sync.WaitGroup
	counts := make([]int, int(atOnce))
	for worker := range counts {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for index := range numbers {
				made := request(index)
				made.Header.Set("Authorization", "Bearer "+os.Getenv("BENCH_TOKEN"))
				response, err := client.Do(made)
				check(err)
				body, err := io.ReadAll(response.Body)
				check(err)
				response.Body.Close()
				if response.StatusCode != http.StatusOK {
					log.Fatalf("%s: %s", response.Status, body)
				}
				counts[worker]++
			}
		}(worker)
	}
	start := time.Now()
	for index := first; time.Since(start).Seconds() < seconds; index++ {
		numbers <- index
	}
	close(numbers)
	group.Wait()
	elapsed := time.Since(start).Seconds()
	total := 0
	for _, count := range counts {
		total += count
	}
	fmt.Printf("{\"count\":%d,\"seconds\":%f}\n", total, elapsed)
}

func post(url, kind string, body []byte) *http.Request {
	made, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	check(err)
	made.Header.Set("Content-Type", kind)
	return made
}
