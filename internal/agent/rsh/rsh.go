// Package rsh runs a program on another node of a gang, like ssh, for the launchers of MPI. It needs no users, keys
// or daemons on the machines. The agent of each node listens at its address while its task runs, accepts only nodes
// that have the gang's key, and runs their commands as a part of the task.
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

	"github.com/tradewind-broker/tradewind/internal/agent/peer"
)

// use distinguishes this identity from the identity of nodes that exchange files.
const use = "programs of one gang"

const (
	firstPort   = 32_000 // above the ports for exchanging files, below those that systems use for outgoing connections
	ports       = 700
	dialWithin  = 5 * time.Second
	tryWithin   = 30 * time.Second // nodes do not start at exactly the same moment
	tryAgain    = 200 * time.Millisecond
	exitTrailer = "Tradewind-Exit"
	noTrailer   = 255 // ssh's exit code for a lost connection
)

// Port returns the port on which a node listens. All nodes with the key compute the same port.
func Port(key []byte, attempt string, rank int) int {
	h := sha256.New()
	_, _ = h.Write(key)
	_, _ = fmt.Fprintf(h, "\x00%s\x00%d", attempt, rank)
	return firstPort + int(binary.BigEndian.Uint32(h.Sum(nil))%ports)
}

// Run runs a shell command until it ends or ctx ends, and returns its exit code.
type Run func(ctx context.Context, command string, out io.Writer) (int, error)

// Serve runs commands for other nodes until ctx ends. It returns an error if it cannot listen.
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
			_ = out.control.Flush() // sends the header
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

// flushing sends what a program writes at once.
type flushing struct {
	io.Writer
	control *http.ResponseController
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	return n, errors.Join(err, f.control.Flush())
}

// Hosts is the content of the file from which a client reads the addresses of nodes.
type Hosts struct {
	Key   []byte            `json:"key"`
	Ports map[string]string `json:"ports"` // host:port by node name and by address
}

// Env contains the path of the file of Hosts for a program that is started as a client.
const Env = "TRADEWIND_RSH"

// clientWord is the first argument of a client.
const clientWord = "rsh"

// Script returns a shell script that is called like ssh: [options] HOST COMMAND…
func Script(self, hosts string) string {
	return fmt.Sprintf("#!/bin/sh\n%s=%s exec %s %s \"$@\"\n", Env, quote(hosts), quote(self), clientWord)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Reexec turns this process into a client if Script started it, and then does not return. Call it first in main or
// TestMain.
func Reexec() {
	if file := os.Getenv(Env); file != "" && len(os.Args) > 1 && os.Args[1] == clientWord {
		code, err := client(context.Background(), file, os.Args[2:], os.Stdout)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}
}

// client runs a command on a host and returns its exit code. It ignores ssh's options.
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
		return noTrailer, errors.New("rsh: usage: [options] HOST COMMAND")
	}
	address, known := hosts.Ports[args[0]]
	if !known {
		return noTrailer, fmt.Errorf("rsh: %s is not a node of this gang", args[0])
	}
	id, err := peer.New(hosts.Key, use)
	if err != nil {
		return noTrailer, err
	}
	return call(ctx, id, address, strings.Join(args[1:], " "), out)
}

// call calls a node. It retries while the node may not have started yet.
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
		return noTrailer, fmt.Errorf("rsh: lost the connection to %s: %w", address, err)
	}
	code, err := strconv.Atoi(resp.Trailer.Get(exitTrailer))
	if err != nil {
		return noTrailer, fmt.Errorf("rsh: %s sent no exit code", address)
	}
	return code, nil
}
