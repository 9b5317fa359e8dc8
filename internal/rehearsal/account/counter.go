package account

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// Call is a kind of request and how often it was made.
type Call struct {
	Service string `json:"service"`
	Action  string `json:"action"`
	// Function is the caller; "agent", "user", or for Lambda's own polls the function that they are for.
	Function string `json:"function"`
	Count    int    `json:"count"`
	// Units are DynamoDB's request units or EventBridge's events; otherwise 0.
	Units float64 `json:"units,omitempty"`
}

// Counter counts requests, for the bill.
type Counter struct {
	mu    sync.Mutex
	calls map[[3]string]*Call
}

func (c *Counter) add(service, action, function string) { c.addUnits(service, action, function, 0) }

func (c *Counter) addUnits(service, action, function string, units float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[[3]string]*Call{}
	}
	key := [3]string{service, action, function}
	k := c.calls[key]
	if k == nil {
		k = &Call{Service: service, Action: action, Function: function}
		c.calls[key] = k
	}
	k.Count++
	k.Units += units
}

// Calls returns the counted calls.
func (c *Counter) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Call, 0, len(c.calls))
	for _, k := range slices.Collect(maps.Values(c.calls)) {
		out = append(out, *k)
	}
	slices.SortFunc(out, func(a, b Call) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Action, b.Action),
			cmp.Compare(a.Function, b.Function))
	})
	return out
}

// Total returns the number of calls.
func (c *Counter) Total() int {
	n := 0
	for _, k := range c.Calls() {
		n += k.Count
	}
	return n
}
