package story

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os/exec"
	"regexp"
	"strings"
)

// shown is a running job that is followed in a browser by `tradewind dashboard`.
type shown struct {
	command *exec.Cmd
	stop    context.CancelFunc
	events  *bufio.Scanner
	log     *bufio.Scanner
}

var signInURL = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?token=\S+`)

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
	var url string
	for url == "" && lines.Scan() {
		url = signInURL.FindString(lines.Text())
	}
	if url == "" {
		v.close()
		return nil, errors.New("the dashboard has printed no address")
	}
	jar, _ := cookiejar.New(nil) // it cannot fail
	browser := &http.Client{Jar: jar}
	open := func(path string) (*bufio.Scanner, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
		if err != nil {
			return nil, err
		}
		res, err := browser.Do(r) //nolint:bodyclose // it ends with the context
		if err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", path, res.Status)
		}
		if err != nil {
			return nil, err
		}
		return bufio.NewScanner(res.Body), nil
	}
	base, _, _ := strings.Cut(url, "/?")
	page, err := open(url)
	if err == nil {
		err = reads(page, "<title>")
	}
	if err == nil {
		v.events, err = open(base + "/v1/jobs/" + id + "/events")
	}
	if err == nil {
		v.log, err = open(base + "/v1/jobs/" + id + "/tasks/" + task + "/logs?follow=true")
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
