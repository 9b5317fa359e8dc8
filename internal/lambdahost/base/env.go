// Package base is what every Lambda function needs before it is any of them: how it reads its environment, the SDK's
// configuration, and its log. It links no part of the broker, so that a function which is no part of it is small.
package base

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// ErrEnv says that the environment is not what infra/ sets.
var ErrEnv = errors.New("lambdahost: environment")

// Reader reads variables and collects what is wrong, so that one look at the log names it all.
type Reader struct {
	Getenv func(string) string
	wrong  []string
}

// Err names every variable that was wrong, wrapped in ErrEnv.
func (r *Reader) Err() error {
	if len(r.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrEnv, strings.Join(r.wrong, "; "))
}

// Need reads what has to be set.
func (r *Reader) Need(name string) string {
	v := r.Getenv(name)
	if v == "" {
		r.wrong = append(r.wrong, name+" is not set")
	}
	return v
}

// URL reads a base URL, without a slash at its end.
func (r *Reader) URL(name string) string {
	v := r.Need(name)
	if v == "" {
		return ""
	}
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		r.wrong = append(r.wrong,
			fmt.Sprintf("%s is %q, which is no base URL such as https://api.example.com", name, v))
	}
	return strings.TrimRight(v, "/")
}

// Pairs reads KEY=VALUE by comma.
func (r *Reader) Pairs(name string) map[string]string {
	out := map[string]string{}
	for _, pair := range List(r.Getenv(name)) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || value == "" {
			r.wrong = append(r.wrong, fmt.Sprintf("%s has %q, which is no REGION=BUCKET", name, pair))
			continue
		}
		out[key] = value
	}
	return out
}

// OneOf reads one of some words; the first where nothing is set.
func (r *Reader) OneOf(name string, words ...string) string {
	v := r.Getenv(name)
	if v == "" {
		return words[0]
	}
	if !slices.Contains(words, v) {
		r.wrong = append(r.wrong, fmt.Sprintf("%s is %q, which is none of %s", name, v, strings.Join(words, ", ")))
	}
	return v
}

// Span reads a length of time of a second or more; fallback where nothing is set.
func (r *Reader) Span(name string, fallback time.Duration) time.Duration {
	v := r.Getenv(name)
	if v == "" {
		return fallback
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < time.Second {
		r.wrong = append(r.wrong, fmt.Sprintf("%s is %q, which is no time of a second or more, such as 30s", name, v))
	}
	return d
}

// Level reads a level of the log; info where none is set.
func (r *Reader) Level(name string) string {
	v := strings.ToLower(r.Getenv(name))
	switch v {
	case "":
		return "info"
	case "debug", "info", "warn", "error":
		return v
	}
	r.wrong = append(r.wrong, fmt.Sprintf("%s is %q, which is none of debug, info, warn, error", name, v))
	return ""
}

// List are the parts of a text, by comma.
func List(v string) []string {
	var out []string
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
