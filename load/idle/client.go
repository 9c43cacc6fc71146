// Go's client: each connection carries a batch, is silent for a while, and carries another. Prints how many of the
// second ones were lost. Usage: client plain|keyed|short JOB
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type job struct {
	URL         string `json:"url"`
	AppKey      string `json:"appKey"`
	Connections int    `json:"connections"`
	StartMs     int    `json:"startMs"`
	LeastMs     int    `json:"leastMs"`
	MostMs      int    `json:"mostMs"`
}

func uuid() string {
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

func batch(appKey string) []byte {
	return []byte(fmt.Sprintf(`{"app_key":%q,"events":[{"type":"track","name":"idle","hashed_daily_id":%q,`+
		`"hashed_monthly_id":%q,"session_id":%q,"timestamp":%q,"context":{"os":"linux"}}]}`, appKey,
		strings.Repeat("d", 32), strings.Repeat("m", 32), uuid(), time.Now().UTC().Format(time.RFC3339)))
}

func main() {
	kind := os.Args[1]
	var work job
	if err := json.Unmarshal([]byte(os.Args[2]), &work); err != nil {
		panic(err)
	}
	post := func(client *http.Client) bool {
		request, err := http.NewRequest("POST", work.URL, bytes.NewReader(batch(work.AppKey)))
		if err != nil {
			panic(err)
		}
		request.Header.Set("Content-Type", "application/json")
		if kind == "keyed" {
			request.Header.Set("Idempotency-Key", uuid())
		}
		answer, err := client.Do(request)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		io.Copy(io.Discard, answer.Body)
		return answer.StatusCode == 202
	}
	var lost atomic.Int64
	var all sync.WaitGroup
	for i := 0; i < work.Connections; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			// One for each connection: of a pool, only the connection that was used last would be used again.
			transport := &http.Transport{}
			if kind == "short" {
				transport.IdleConnTimeout = 7 * time.Second
			}
			client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
			time.Sleep(time.Duration(mathrand.Intn(work.StartMs)) * time.Millisecond)
			if !post(client) {
				panic("the first batch was not accepted")
			}
			silentMs := work.LeastMs + mathrand.Intn(work.MostMs-work.LeastMs)
			time.Sleep(time.Duration(silentMs) * time.Millisecond)
			if !post(client) {
				lost.Add(1)
			}
		}()
	}
	all.Wait()
	fmt.Println(lost.Load())
}
