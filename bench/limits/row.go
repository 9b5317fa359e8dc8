package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/benchreport"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/gateway"
)

// within is the time limit of API Gateway for a response, and of a broker function for a batch.
const within = 29 * time.Second

// row is the requests and responses of one call, or of several that belong together.
type row struct {
	what, place string
	maxRequests int // maximum number of requests to the store; in one invocation, if there are several

	requests, records int
	invocations       int // of a function of the broker; 0 for a call of the API
	hardest           int // requests of the invocation with the most requests
	read, write       float64
	units             bool // the store counts units
	lambda            bool // its responses have a maximum size
	answers
	events map[string]int // by type
	took   time.Duration
}

// answers are responses of the API.
type answers struct {
	calls         int
	sent          int // bytes as sent, after compression
	plain, widest int // bytes before compression, of all and of the largest
}

// check returns an error that lists the values above their limits.
func (r *row) check() error {
	var over []string
	asked := r.requests
	if r.invocations > 0 {
		asked = r.hardest
	}
	if asked > r.maxRequests {
		over = append(over, fmt.Sprintf("%d requests to the store, at most %d", asked, r.maxRequests))
	}
	if r.lambda && r.widest > gateway.MaxAnswer {
		over = append(over, fmt.Sprintf("an answer of %s, at most %s", size(r.widest), size(gateway.MaxAnswer)))
	}
	if r.took > within && (r.lambda || r.calls+r.invocations > 0) { // an open stream has no time limit
		over = append(over, fmt.Sprintf("%s, at most %s", r.took, within))
	}
	if len(over) == 0 {
		return nil
	}
	return fmt.Errorf("%s (%s): %s", r.what, r.place, strings.Join(over, "; "))
}

// line is the row as it appears in the table.
func (r *row) line() benchreport.Row {
	got := []string{fmt.Sprintf("%s for %s", text.Count(r.requests, "request"), text.Count(r.records, "record"))}
	if r.units {
		got = append(got, text.Thousands(int(r.read))+" read and "+text.Count(int(r.write), "write unit"))
	}
	switch {
	case r.calls > 0 && r.lambda:
		got = append(got, fmt.Sprintf("%s of %s, compressed %s, the largest of %s", text.Count(r.calls, "answer"),
			size(r.plain), size(r.sent), size(r.widest)))
	case r.calls > 0:
		got = append(got, fmt.Sprintf("%s of %s", text.Count(r.calls, "answer"), size(r.plain)))
	case r.plain > 0:
		got = append(got, size(r.plain)+" in the open stream")
	}
	if r.invocations > 0 {
		got = append(got, text.Count(r.invocations, "invocation"), countsByType(r.events))
	}
	target := text.Count(r.maxRequests, "request")
	switch {
	case r.invocations > 0:
		target += " an invocation"
	case r.lambda:
		target += ", answers of " + size(gateway.MaxAnswer)
	}
	if r.lambda || r.calls+r.invocations > 0 {
		target += ", 29 s"
	}
	return benchreport.Row{
		Measure: r.what + ", " + r.place, Target: target, Command: "make bench-limits",
		Result: strings.Join(append(got, fmt.Sprintf("%.2f s", r.took.Seconds())), "; "),
	}
}

// countsByType lists the number of events by type.
func countsByType(counts map[string]int) string {
	if len(counts) == 0 {
		return "no event"
	}
	var out []string
	for _, typ := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%s %s", text.Thousands(counts[typ]), events.ShortName(typ)))
	}
	return strings.Join(out, ", ")
}

// size formats bytes in a suitable unit.
func size(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%d B", n)
	}
}
