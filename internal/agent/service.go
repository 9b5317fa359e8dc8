package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/base/freeport"
)

// choosePort chooses the port on which a replica of a service listens: the port in the job's file if no other task
// uses the machine, and otherwise any free port.
func (t *attempt) choosePort() error {
	s := t.work.Service
	if s == nil || s.Port == 0 {
		return nil
	}
	if t.port = s.Port; t.cfg.Sole {
		return nil
	}
	var err error
	t.port, err = freeport.Find()
	return err
}

// serviceEnv returns the variables of a replica of a service, including SkyPilot's, which counts replicas from 1.
func (t *attempt) serviceEnv() map[string]string {
	s := t.work.Service
	if s == nil {
		return nil
	}
	env := map[string]string{
		"TRADEWIND_SERVICE": s.Name, "TRADEWIND_REPLICA": strconv.Itoa(s.Replica),
		"SKYPILOT_SERVE_REPLICA_ID": strconv.Itoa(s.Replica + 1),
	}
	if t.port > 0 {
		env["PORT"] = strconv.Itoa(t.port)
	}
	return env
}

// firstProbe is the time from the start of a replica to its first probe. The interval then doubles until the replica
// is ready, up to the configured interval.
const firstProbe = 100 * time.Millisecond

// probe checks repeatedly whether the replica is ready and reports changes, until ctx ends. The returned channel
// receives an error when the replica must end. It is nil if the task is not probed.
func (t *attempt) probe(ctx context.Context) <-chan error {
	s := t.work.Service
	if s == nil || t.claims.Rank != 0 {
		return nil
	}
	unfit := make(chan error, 1)
	if t.port == 0 {
		t.reports.add(wire.Report{Event: wire.Ready}, nil)
		return unfit
	}
	t.wg.Go(func() {
		if err := t.probeUntil(ctx, s); err != nil && ctx.Err() == nil {
			unfit <- err
		}
	})
	return unfit
}

// probeUntil is probe without the goroutine.
func (t *attempt) probeUntil(ctx context.Context, s *wire.Service) error {
	began, pause, fails := time.Now(), firstProbe, 0
	var since time.Time // when it was last ready; zero if it never was
	ready := false
	for clock.Pause(ctx, min(pause, s.Every)) == nil {
		err := probeOnce(ctx, s, t.port)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			fails, since, pause = 0, time.Now(), s.Every
			if !ready {
				ready = true
				t.reports.add(wire.Report{Event: wire.Ready, Port: t.port}, nil)
			}
		case since.IsZero():
			if pause *= 2; time.Since(began) >= s.InitialDelay {
				return fmt.Errorf("not ready within %v: %w", s.InitialDelay, err)
			}
		default:
			if fails++; ready && fails >= wire.UnreadyAfter {
				ready = false
				t.reports.add(wire.Report{Event: wire.Unready, Message: truncate(err.Error(), tailBytes)}, nil)
			}
			if !ready && time.Since(since) >= s.Patience {
				return fmt.Errorf("not ready for %v: %w", s.Patience, err)
			}
		}
	}
	return ctx.Err()
}

// prober returns a client that connects only to the machine itself. It ignores proxies in the environment.
func prober() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// maxProbed is the maximum number of bytes read of a probe's answer.
const maxProbed = 64 << 10

// probeOnce probes once.
func probeOnce(ctx context.Context, s *wire.Service, port int) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if s.Path == "" {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if s.Post != "" {
		method, body = http.MethodPost, strings.NewReader(s.Post)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+address+s.Path, body)
	if err != nil {
		return err
	}
	for name, value := range s.Headers {
		if r.Header.Set(name, value); http.CanonicalHeaderKey(name) == "Host" {
			r.Host = value
		}
	}
	answer, err := prober().Do(r)
	if err != nil {
		return err
	}
	_, err = io.CopyN(io.Discard, answer.Body, maxProbed)
	if closed := answer.Body.Close(); errors.Is(err, io.EOF) {
		err = closed
	}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("%s %s: %s", method, s.Path, answer.Status)
	}
	return err
}

// drainWithin is the part of a notice that a replica has to finish the requests that it is answering; at most half of
// the notice.
const drainWithin = 30 * time.Second

// serveUntilNeeded lets a replica whose machine will be taken continue to serve until it must end, because its
// replacement is not ready yet. It returns the time at which the machine will be taken, which may be earlier than
// until.
func (t *attempt) serveUntilNeeded(s *script, until time.Time) time.Time {
	for {
		t.mu.Lock()
		atOnce := t.atOnce
		t.mu.Unlock()
		left := time.Until(until)
		if t.work.Service == nil || atOnce || left <= 0 {
			return until
		}
		select {
		case <-t.sooner:
			until = t.writeNewNotice(until)
			continue
		case <-time.After(left - min(left/2, drainWithin)):
		case <-s.Done():
		case <-t.unlessStopped.Done():
		}
		return until
	}
}
