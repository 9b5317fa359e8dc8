package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
)

// throttledStore is a store behind a link of limited bandwidth that all readers share, like a bucket's limit or the
// link between two clouds.
type throttledStore struct {
	server *http.Server
	url    string
	read   atomic.Int64 // bytes
}

func newNarrow(ctx context.Context, to string, bytesASecond int) (*throttledStore, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	const burst = 256 << 10
	n := &throttledStore{url: "http://" + l.Addr().String()}
	width := rate.NewLimiter(rate.Limit(bytesASecond), burst)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}}
	n.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			req, err := http.NewRequestWithContext(r.Context(), r.Method, to+r.URL.RequestURI(), r.Body) //nolint:gosec // to is ours
			if err != nil {
				http.Error(w, "", http.StatusBadRequest)
				return
			}
			req.Host, req.Header, req.ContentLength = r.Host, r.Header, r.ContentLength // what was signed
			resp, err := client.Do(req)                                                 //nolint:gosec // see above
			if err != nil {
				http.Error(w, "", http.StatusBadGateway)
				return
			}
			defer resp.Body.Close() //nolint:errcheck // only read
			for name, values := range resp.Header {
				w.Header()[name] = values
			}
			w.WriteHeader(resp.StatusCode)
			chunk := make([]byte, 64<<10)
			for {
				some, err := resp.Body.Read(chunk)
				if some > 0 {
					n.read.Add(int64(some))
					if width.WaitN(r.Context(), some) != nil {
						return
					}
					if _, err := w.Write(chunk[:some]); err != nil {
						return
					}
				}
				if err != nil {
					return
				}
			}
		})}
	go func() { _ = n.server.Serve(l) }() // until it is closed
	return n, nil
}

// behind returns an S3 place that is accessed through the narrow link.
func (n *throttledStore) behind(p *place) *place {
	client := s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(n.url), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(servers.S3AccessKey, servers.S3SecretKey, ""),
	})
	far := *p
	far.store = s3grant.New(client, s3grant.Options{})
	return &far
}

// spreads measures the time until all of many nodes (processes) have a task's input: when each reads it from the store,
// and when the nodes share it.
func (b *bench) spreads(ctx context.Context, s settings, at *place) (string, error) {
	w := workload{name: "spread", files: 4, size: max(s.spread<<20/4, 1<<20)}
	what := fmt.Sprintf("%d nodes read %d MiB, store of %d MB/s", s.nodes, w.bytes()>>20, s.width)
	if s.nodes < 2 || !s.only.MatchString(what) {
		return "", nil
	}
	if err := b.make(w); err != nil {
		return "", err
	}
	if _, err := (ours{}).upload(ctx, b.source(w), at, "spread"); err != nil {
		return "", err
	}
	modes := []string{"each by itself", "passed on"}
	took := [2]*result{{}, {}}
	var read [2]int64
	for range s.repeat {
		for mode := range modes {
			far, err := newNarrow(ctx, at.s3, s.width*1_000_000)
			if err != nil {
				return "", err
			}
			u, err := b.spreadOnce(ctx, far.behind(at), w, s.nodes, mode == 1)
			_ = far.server.Close() // no longer used
			if err != nil {
				return "", fmt.Errorf("%s, %s: %w", what, modes[mode], err)
			}
			s.tell("%s: %s: %.2f s, processor %.2f s", what, modes[mode], u.wall.Seconds(), u.cpu.Seconds())
			took[mode].took, read[mode] = append(took[mode].took, u), far.read.Load()
		}
	}
	var body strings.Builder
	body.WriteString("\n| work | how | wall, s | read from the store, MB | processor of all nodes, s | speed-up |\n" +
		"| --- | --- | --- | --- | --- | --- |\n")
	for mode, name := range modes {
		fmt.Fprintf(&body, "| %s | %s | %.2f | %d | %.2f | %.2f |\n", what, name, took[mode].median(wall),
			read[mode]/1e6, took[mode].median(cpu), took[0].median(wall)/took[mode].median(wall))
	}
	return body.String(), nil
}

func (b *bench) spreadOnce(ctx context.Context, at *place, w workload, nodes int, pass bool) (sum usage, err error) {
	g, err := newGranting(ctx, at.store)
	if err != nil {
		return sum, err
	}
	defer g.Close() //nolint:errcheck // no longer used
	self, err := os.Executable()
	if err != nil {
		return sum, err
	}
	top := filepath.Join(b.dir, "nodes")
	defer func() { err = errors.Join(err, os.RemoveAll(top)) }()
	key := fmt.Sprintf("key of the benchmark %d", time.Now().UnixNano())
	errs, used := make([]error, nodes), make([]usage, nodes)
	var all sync.WaitGroup
	began := time.Now()
	for rank := range nodes {
		dir := filepath.Join(top, strconv.Itoa(rank))
		args := []string{moving, "-broker", g.url, "-op", "download", "-uri", at.uri + "/spread/", "-dir", dir}
		if pass {
			args = append(args, "-nodes", strconv.Itoa(nodes), "-rank", strconv.Itoa(rank))
		}
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return sum, err
		}
		all.Go(func() { used[rank], errs[rank] = run(ctx, []string{exchangeKey + "=" + key}, self, args...) })
	}
	all.Wait()
	sum.wall = time.Since(began)
	for rank := range nodes {
		sum.cpu += used[rank].cpu
		if errs[rank] == nil {
			errs[rank] = w.same(b.source(w), filepath.Join(top, strconv.Itoa(rank)))
		}
	}
	return sum, errors.Join(errs...)
}
