package account

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// emulated has the emulators of an account: DynamoDB Local, Amazon's own, for the table, and moto for everything else.
// moto's table copies itself for every transaction, and loses concurrent writes when one is cancelled.
type emulated struct {
	moto, local *emulator.Process
}

func startEmulators() (*emulated, error) {
	e := &emulated{}
	done := make(chan error)
	go func() {
		var err error
		e.local, err = emulator.Start(emulator.DynamoDBLocalServer())
		done <- err
	}()
	var err error
	e.moto, err = emulator.Start(emulator.MotoServer("MOTO_ACCOUNT_ID=" + account))
	if err = errors.Join(err, <-done); err != nil {
		e.stop()
		return nil, err
	}
	return e, nil
}

func (e *emulated) stop() {
	for _, p := range []*emulator.Process{e.moto, e.local} {
		if p != nil {
			p.Stop()
		}
	}
}

// front passes each request to the emulator of its service, which is in its signature.
func front(moto, local string, log *slog.Logger) (*httputil.ReverseProxy, error) {
	all, err := url.Parse(moto)
	if err != nil {
		return nil, err
	}
	table, err := url.Parse(local)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Transport: manyAtOnce(),
		Rewrite: func(r *httputil.ProxyRequest) {
			to := all
			if callerOf(r.In).service == "dynamodb" { // also in the signatures of streams requests
				to = table
			}
			r.SetURL(to)
			r.Out.Host = r.In.Host
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			log.Debug("proxy", "err", err)
			w.WriteHeader(http.StatusBadGateway)
		},
	}, nil
}

// manyAtOnce keeps enough connections to an emulator for all working functions. By default only two are kept, and every
// further request opens a connection.
func manyAtOnce() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	return t
}
