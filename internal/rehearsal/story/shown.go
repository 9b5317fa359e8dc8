package story

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/api/signin"
)

// shown is a running job that is followed in a browser by `tradewind dashboard`.
type shown struct {
	command *exec.Cmd
	stop    context.CancelFunc
	events  *bufio.Scanner
	log     *bufio.Scanner
}

var signInURL = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/#code=(\S+)`)

// show opens the dashboard of the deployment, signs in, and follows a job and the log of one of its tasks, like the
// page. The streams end when the task does, although no answer of a function lasts that long.
func (s *Story) show(ctx context.Context, id, task string) (*shown, error) {
	ctx, stop := context.WithCancel(ctx)
	v := &shown{stop: stop, command: s.command(ctx, "dashboard")}
	out, err := v.command.StdoutPipe()
	if err == nil {
		err = v.command.Start()
	}
	if err != nil {
		stop()
		return nil, err
	}
	lines := bufio.NewScanner(out)
	var found []string
	for found == nil && lines.Scan() {
		found = signInURL.FindStringSubmatch(lines.Text())
	}
	if found == nil {
		v.close()
		return nil, errors.New("the dashboard has printed no address")
	}
	base, session := found[1], signin.Session{}
	send := func(method, path, body string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("Authorization", "Bearer "+session.Session)
		return http.DefaultClient.Do(r)
	}
	open := func(path string) (*bufio.Scanner, error) {
		res, err := send(http.MethodGet, path, "") //nolint:bodyclose // it ends with the context
		if err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", path, res.Status)
		}
		if err != nil {
			return nil, err
		}
		return bufio.NewScanner(res.Body), nil
	}
	page, err := open("/")
	if err == nil {
		err = reads(page, "<title>")
	}
	if err == nil {
		var res *http.Response
		if res, err = send(http.MethodPost, signin.Path, `{"code":"`+found[2]+`"}`); err == nil {
			err = json.NewDecoder(res.Body).Decode(&session)
			_ = res.Body.Close() // only read
		}
	}
	if err == nil {
		v.events, err = open("/v1/jobs/" + id + "/events")
	}
	if err == nil {
		v.log, err = open("/v1/jobs/" + id + "/tasks/" + task + "/logs?follow=true")
	}
	if err == nil {
		err = errors.Join(reads(v.events, "event: job"), reads(v.log, waitingMasked))
	}
	if err != nil {
		v.close()
		return nil, err
	}
	return v, nil
}

// reads reads up to a line that contains a text.
func reads(from *bufio.Scanner, text string) error {
	for from.Scan() {
		if strings.Contains(from.Text(), text) {
			return nil
		}
	}
	return fmt.Errorf("the dashboard has not shown %q: %w", text, errors.Join(from.Err(), io.ErrUnexpectedEOF))
}

// over waits until the streams end.
func (v *shown) over() error {
	err := reads(v.events, "event: end")
	for v.log.Scan() {
		err = errors.Join(err, fmt.Errorf("the log continues: %q", v.log.Text()))
	}
	err = errors.Join(err, v.log.Err())
	v.close()
	return err
}

func (v *shown) close() {
	v.stop()
	_ = v.command.Wait() // it was stopped
}
