// Package rsh runs a program on another node of a gang, as ssh does: what launchers of MPI want. No user, key or daemon
// of the machines is needed: the agent of each node listens at its address while its task runs, for who has the gang's
// key alone, and runs what it is asked to as a part of the task.
package rsh

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/peer"
)

// use parts the identity from that of nodes which pass on files.
const use = "programs of one gang"

const (
	firstPort   = 32_000 // above those that nodes pass on files at, below those given to who dials out
	ports       = 700
	dialWithin  = 5 * time.Second
	tryWithin   = 30 * time.Second // nodes begin together, but not at the same moment
	tryAgain    = 200 * time.Millisecond
	exitTrailer = "Tradewind-Exit"
	noTrailer   = 255 // as ssh ends that has lost its connection
)

// Port is where a node listens: all that have the key know it.
func Port(key []byte, attempt string, rank int) int {
	h := sha256.New()
	_, _ = h.Write(key)
	_, _ = fmt.Fprintf(h, "\x00%s\x00%d", attempt, rank)
	return firstPort + int(binary.BigEndian.Uint32(h.Sum(nil))%ports)
}

// Run runs a command of the shell to its end, or until ctx ends, and returns its exit code.
type Run func(ctx context.Context, command string, out io.Writer) (int, error)

// Serve runs what is asked for until ctx ends. It fails where it can not listen.
func Serve(ctx context.Context, address string, key []byte, run Run) error {
	id, err := peer.New(key, use)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("rsh: %w", err)
	}
	server := &http.Server{
		ReadHeaderTimeout: dialWithin, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var command string
			if err := json.NewDecoder(io.LimitReader(r.Body, maxCommand)).Decode(&command); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			w.Header().Set("Trailer", exitTrailer)
			w.WriteHeader(http.StatusOK)
			out := flushing{w, http.NewResponseController(w)}
			_ = out.control.Flush() // it has begun
			code, err := run(r.Context(), command, out)
			if err != nil {
				_, _ = fmt.Fprintln(out, err)
			}
			w.Header().Set(exitTrailer, strconv.Itoa(code))
		}),
	}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	go func() { _ = server.Serve(tls.NewListener(l, id.Server())) }() // until it is closed
	return nil
}

const maxCommand = 1 << 20

// flushing passes on at once what a program writes.
type flushing struct {
	io.Writer
	control *http.ResponseController
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	return n, errors.Join(err, f.control.Flush())
}

// Hosts is the file that tells a client where nodes listen.
type Hosts struct {
	Key   []byte            `json:"key"`
	Ports map[string]string `json:"ports"` // by name and by address: host:port
}

// Env names the file of Hosts to a program that is started as a client.
const Env = "TRADEWIND_RSH"

// clientWord is the first argument of a client.
const clientWord = "rsh"

// Script is a shell script that is called as ssh is: [options] HOST COMMAND…
func Script(self, hosts string) string {
	return fmt.Sprintf("#!/bin/sh\n%s=%s exec %s %s \"$@\"\n", Env, quote(hosts), quote(self), clientWord)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Reexec makes this process a client if it was started as one by Script, and does not return then. It must come first
// in main, or in TestMain.
func Reexec() {
	if file := os.Getenv(Env); file != "" && len(os.Args) > 1 && os.Args[1] == clientWord {
		code, err := client(context.Background(), file, os.Args[2:], os.Stdout)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}
}

// client runs a command on a host and returns its exit code. Options of ssh are passed over.
func client(ctx context.Context, file string, args []string, out io.Writer) (int, error) {
	text, err := os.ReadFile(file) //nolint:gosec // named by the agent
	if err != nil {
		return noTrailer, fmt.Errorf("rsh: %w", err)
	}
	var hosts Hosts
	if err := json.Unmarshal(text, &hosts); err != nil {
		return noTrailer, fmt.Errorf("rsh: %s: %w", file, err)
	}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		takes := len(args[0]) == 2 && strings.ContainsAny(args[0][1:], "bceiFlmopEIJLOQRSWw")
		if takes && len(args) > 1 {
			args = args[1:]
		}
		args = args[1:]
	}
	if len(args) < 2 {
		return noTrailer, errors.New("rsh: say which host, and what to run there")
	}
	address, known := hosts.Ports[args[0]]
	if !known {
		return noTrailer, fmt.Errorf("rsh: %s is no node of this gang", args[0])
	}
	id, err := peer.New(hosts.Key, use)
	if err != nil {
		return noTrailer, err
	}
	return call(ctx, id, address, strings.Join(args[1:], " "), out)
}

// call asks a node, which may not have begun yet.
func call(ctx context.Context, id *peer.Identity, address, command string, out io.Writer) (int, error) {
	c := http.Client{Transport: &http.Transport{
		TLSClientConfig: id.Client(), DialContext: (&net.Dialer{Timeout: dialWithin}).DialContext,
	}}
	body, err := json.Marshal(command)
	if err != nil {
		return noTrailer, err
	}
	var resp *http.Response
	for until := time.Now().Add(tryWithin); ; time.Sleep(tryAgain) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+"/", bytes.NewReader(body))
		if err != nil {
			return noTrailer, err
		}
		if resp, err = c.Do(req); err == nil { //nolint:gosec // to a member of its gang
			break
		}
		var refused *net.OpError
		if !errors.As(err, &refused) || refused.Op != "dial" || time.Now().After(until) {
			return noTrailer, fmt.Errorf("rsh: %w", err)
		}
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if _, err := io.Copy(out, resp.Body); err != nil {
		return noTrailer, fmt.Errorf("rsh: %s is gone: %w", address, err)
	}
	code, err := strconv.Atoi(resp.Trailer.Get(exitTrailer))
	if err != nil {
		return noTrailer, fmt.Errorf("rsh: %s did not say how it ended", address)
	}
	return code, nil
}
