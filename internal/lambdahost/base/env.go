// Package base is the common part of all Lambda functions: reading the environment, the SDK's configuration, and the
// log. It links no part of the broker, so that functions that do not need the broker stay small.
package base

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// ErrEnv means that the environment is not as infra/ sets it.
var ErrEnv = errors.New("lambdahost: environment")

// Reader reads variables and collects all errors, so that the log names them at once.
type Reader struct {
	Getenv func(string) string
	wrong  []string
}

// Err returns an error that wraps ErrEnv and names every wrong variable.
func (r *Reader) Err() error {
	if len(r.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrEnv, strings.Join(r.wrong, "; "))
}

// Need reads a required variable.
func (r *Reader) Need(name string) string {
	v := r.Getenv(name)
	if v == "" {
		r.wrong = append(r.wrong, name+" is not set")
	}
	return v
}

// URL reads a base URL and removes a trailing slash.
func (r *Reader) URL(name string) string {
	v := r.Need(name)
	if v == "" {
		return ""
	}
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		r.wrong = append(r.wrong,
			fmt.Sprintf("%s is %q, which is not a base URL such as https://api.example.com", name, v))
	}
	return strings.TrimRight(v, "/")
}

// Pairs reads comma-separated KEY=VALUE pairs.
func (r *Reader) Pairs(name string) map[string]string {
	out := map[string]string{}
	for _, pair := range List(r.Getenv(name)) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || value == "" {
			r.wrong = append(r.wrong, fmt.Sprintf("%s has %q, which is not KEY=VALUE", name, pair))
			continue
		}
		out[key] = value
	}
	return out
}

// OneOf reads one of the given words; the default is the first.
func (r *Reader) OneOf(name string, words ...string) string {
	v := r.Getenv(name)
	if v == "" {
		return words[0]
	}
	if !slices.Contains(words, v) {
		r.wrong = append(r.wrong, fmt.Sprintf("%s is %q, which is not one of %s", name, v, strings.Join(words, ", ")))
	}
	return v
}

// Span reads a duration of at least a second; the default is fallback.
func (r *Reader) Span(name string, fallback time.Duration) time.Duration {
	v := r.Getenv(name)
	if v == "" {
		return fallback
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < time.Second {
		r.wrong = append(
			r.wrong,
			fmt.Sprintf("%s is %q, which is not a duration of at least a second, such as 30s", name, v),
		)
	}
	return d
}

// Amount reads an optional amount that is not negative; without it, 0.
func (r *Reader) Amount(name string) float64 {
	text := r.Getenv(name)
	if text == "" {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0) || math.IsInf(v, 0) {
		r.wrong = append(r.wrong, fmt.Sprintf("%s is %q, which is not an amount", name, text))
	}
	return v
}

// Keep reads how long finished jobs are kept, as in a job file; the default is 0.
func (r *Reader) Keep(name string) time.Duration {
	d, err := dag.ParseKeep(r.Getenv(name))
	if err != nil {
		r.wrong = append(r.wrong, fmt.Sprintf("%s: %v", name, err))
	}
	return d
}

// Level reads a log level; the default is info.
func (r *Reader) Level(name string) string {
	v := strings.ToLower(r.Getenv(name))
	switch v {
	case "":
		return "info"
	case "debug", "info", "warn", "error":
		return v
	}
	r.wrong = append(r.wrong, fmt.Sprintf("%s is %q, which is not one of debug, info, warn, error", name, v))
	return ""
}

// List splits a comma-separated list.
func List(v string) []string {
	var out []string
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
