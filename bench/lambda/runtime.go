package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// runtimeAPI is the Lambda Runtime API (2018-06-01) for one invocation: it returns one event, and records when the
// function requested and when it answered it.
type runtimeAPI struct {
	server *http.Server
	addr   string
	event  string
	asked  chan time.Time // the first and the second request for work; the second follows the first response
	answer chan answer
	given  bool
}

type answer struct {
	at   time.Time
	body string
	ok   bool
}

const runtimePath = "/2018-06-01/runtime/"

func newRuntimeAPI(event string) (*runtimeAPI, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // on loopback, immediate
	if err != nil {
		return nil, err
	}
	a := &runtimeAPI{addr: l.Addr().String(), event: event, asked: make(chan time.Time, 4),
		answer: make(chan answer, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+runtimePath+"invocation/next", a.next)
	mux.HandleFunc("POST "+runtimePath+"invocation/{id}/response", a.done(true))
	mux.HandleFunc("POST "+runtimePath+"invocation/{id}/error", a.done(false))
	mux.HandleFunc("POST "+runtimePath+"init/error", a.done(false))
	a.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go func() { _ = a.server.Serve(l) }() // ends with Close
	return a, nil
}

func (a *runtimeAPI) next(w http.ResponseWriter, r *http.Request) {
	a.asked <- time.Now()
	if a.given { // there are no further events
		<-r.Context().Done()
		return
	}
	a.given = true
	w.Header().Set("Lambda-Runtime-Aws-Request-Id", "8476a536-e9f4-11e8-9739-2dfe598c3fcd")
	w.Header().Set("Lambda-Runtime-Deadline-Ms", fmt.Sprint(time.Now().Add(20*time.Second).UnixMilli()))
	w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:123456789012:function:tradewind")
	w.Header().Set("Lambda-Runtime-Trace-Id", "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Sampled=0")
	_, _ = io.Copy(w, strings.NewReader(a.event)) // an error means that the function has died
}

func (a *runtimeAPI) done(ok bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		at := time.Now()
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		select {
		case a.answer <- answer{at: at, body: string(body), ok: ok}:
		default:
		}
	}
}

func (a *runtimeAPI) close() { _ = a.server.Close() }
