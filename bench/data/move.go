package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/pprof"

	"github.com/tradewind-broker/tradewind/internal/agent/peercache"
	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// moving is the first argument of a process that moves files as an agent does.
const moving = "move"

// exchangeKey is the environment variable with the key of nodes that share their input.
const exchangeKey = "BENCH_EXCHANGE_KEY"

// move is the process: a transfer with grants that it requests from the benchmark.
func move(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet(moving, flag.ExitOnError)
	op := flags.String("op", "", "upload or download, with a manifest; put or fetch, plain objects")
	broker := flags.String("broker", "", "URL of the broker that grants access")
	uri := flags.String("uri", "", "prefix in the store")
	dir := flags.String("dir", "", "folder")
	part := flags.Int64("part", 0, "size of a part in bytes; 0 is the default")
	profile := flags.String("cpuprofile", "", "file for a profile")
	nodes := flags.Int("nodes", 1, "number of nodes on this machine that share the input")
	rank := flags.Int("rank", 0, "rank of this node")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	tr := stage.Transfer{Grants: grantClient{*broker}, Batch: wire.MaxWants, Part: *part}
	if *nodes > 1 {
		cfg := peercache.Config{Rank: *rank, Key: []byte(os.Getenv(exchangeKey))}
		for range *nodes {
			cfg.Nodes = append(cfg.Nodes, "127.0.0.1")
		}
		e, err := peercache.Join(ctx, cfg)
		if err != nil {
			return err
		}
		defer e.Leave(ctx)
		tr.Peers, tr.Shared = e, 1<<20
	}
	switch *op {
	case "upload":
		_, err = tr.Upload(ctx, *uri, *dir, stage.Scan{}, stage.Manifest{Nodes: 1})
	case "download":
		_, err = tr.Download(ctx, *uri, *dir)
	case "put":
		err = tr.Put(ctx, *dir, ".", *uri)
	case "fetch":
		err = tr.Fetch(ctx, *uri, *dir, ".", nil)
	default:
		err = fmt.Errorf("unknown operation %q", *op)
	}
	return err
}

// grantClient requests grants with the agents' protocol.
type grantClient struct{ broker string }

func (a grantClient) Sign(ctx context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	var answer wire.Granted
	err := a.ask(ctx, wire.PathGrants, wire.Wants{Wants: wants}, &answer)
	return answer.Grants, err
}

func (a grantClient) List(ctx context.Context, prefix, after string) (page grant.Page, err error) {
	err = a.ask(ctx, wire.PathList, wire.Listing{Prefix: prefix, After: after}, &page)
	return page, err
}

func (a grantClient) Begin(ctx context.Context, uri string) (string, error) {
	var answer wire.UploadID
	err := a.ask(ctx, wire.PathUploads, wire.Upload{Step: wire.UploadBegin, URI: uri}, &answer)
	return answer.Upload, err
}

func (a grantClient) Complete(ctx context.Context, uri, upload string, parts []grant.Uploaded) error {
	return a.ask(ctx, wire.PathUploads, wire.Upload{
		Step: wire.UploadComplete, URI: uri, Upload: upload, Parts: parts,
	}, &wire.UploadID{})
}

func (a grantClient) Abort(ctx context.Context, uri, upload string) error {
	return a.ask(ctx, wire.PathUploads, wire.Upload{Step: wire.UploadAbort, URI: uri, Upload: upload}, &wire.UploadID{})
}

func (a grantClient) ask(ctx context.Context, path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.broker+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		words, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("%s: %s", resp.Status, words)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}
