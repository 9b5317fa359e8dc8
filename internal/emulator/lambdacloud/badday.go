package lambdacloud

import (
	"fmt"
	"net/http"
	"time"
)

// badDay is what goes wrong.
type badDay struct {
	launches []launchFault
	lost     int // answers of launches, of those to come
	lag      int // lists that lack a new machine
	throttle int // requests to come that are one too many
	dry      map[string]bool
	quota    int // machines; 0 is no bound
	account  string
	revoked  bool
	down     bool
}

// launchFault is one launch to come that fails.
type launchFault struct {
	after   int // launches that go well before
	failure Failure
}

// Failure is an answer of the API that is none. Codes that the description has come with its texts.
type Failure struct {
	Status     int
	Code       string
	Message    string
	Suggestion string
	RetryAfter time.Duration
}

// The failures that the description has, and those that it speaks of in its prose.
func failures() map[string]Failure {
	return map[string]Failure{
		codeCapacity: {Status: http.StatusBadRequest, Message: "Not enough capacity to fulfill launch request.",
			Suggestion: "Choose an instance type with more availability, or try again later."},
		codeQuota: {Status: http.StatusBadRequest, Message: "Quota exceeded.",
			Suggestion: "Contact Support to increase your quota."},
		codeParameters: {Status: http.StatusBadRequest, Message: "Invalid request data."},
		codeKey: {Status: http.StatusUnauthorized, Message: "API key was invalid, expired, or deleted.",
			Suggestion: "Check your API key or create a new one, then try again."},
		codeInactive: {Status: http.StatusForbidden, Message: "Your account is inactive.",
			Suggestion: "Make sure you have verified your email address and have a valid payment method. " +
				"Contact Support if problems continue."},
		codeAddress: {Status: http.StatusForbidden, Message: "Your billing address is invalid.",
			Suggestion: "Make sure your billing address is valid. Contact Support if problems continue."},
		codeNoObject: {Status: http.StatusNotFound, Message: "Specified instance does not exist.",
			Suggestion: "Check it."},
		codeProvider: {Status: http.StatusServiceUnavailable, Message: "Provider unavailable",
			Suggestion: "Try again shortly"},
		codeLimited: {Status: http.StatusTooManyRequests, Message: "Too many requests.", RetryAfter: time.Second},
	}
}

// Codes of the API.
const (
	codeCapacity   = "instance-operations/launch/insufficient-capacity"
	codeQuota      = "global/quota-exceeded"
	codeParameters = "global/invalid-parameters"
	codeKey        = "global/invalid-api-key"
	codeInactive   = "global/account-inactive"
	codeAddress    = "global/invalid-address"
	codeNoObject   = "global/object-does-not-exist"
	codeProvider   = "provider/internal-unavailable"
	codeLimited    = "global/rate-limit-exceeded"
)

// Known is a failure by its code, with the text of the description.
func Known(code string) Failure {
	f, ok := failures()[code]
	if !ok {
		panic(fmt.Sprintf("lambdacloud: no failure %q", code))
	}
	f.Code = code
	return f
}

// FailLaunch has a launch fail after some that do not: 0 is the next one.
func (c *Cloud) FailLaunch(after int, f Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad.launches = append(c.bad.launches, launchFault{after, f})
}

// LoseAnswer has the next launch be carried out, and its answer cut off.
func (c *Cloud) LoseAnswer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad.lost++
}

// Lag has new machines be missing in so many lists.
func (c *Cloud) Lag(lists int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad.lag = lists
}

// Throttle refuses so many requests to come, of any kind.
func (c *Cloud) Throttle(requests int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad.throttle = requests
}

// Dry says whether a region has none of a type; of any where the type is empty.
func (c *Cloud) Dry(kind, region string, is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bad.dry == nil {
		c.bad.dry = map[string]bool{}
	}
	c.bad.dry[kind+"@"+region] = is
}

// Quota bounds the account's machines; 0 is no bound.
func (c *Cloud) Quota(machines int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad.quota = machines
}

// Revoke withdraws the key, or gives it back.
func (c *Cloud) Revoke(is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad.revoked = is
}

// Suspend has everything refused with a code: global/account-inactive; launches alone with global/invalid-address.
// Empty ends that.
func (c *Cloud) Suspend(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad.account = code
}

// Down has everything be cut off.
func (c *Cloud) Down(is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad.down = is
}

// isDry says whether a type cannot be had in a region now. The lock is held.
func (c *Cloud) isDry(kind, region string) bool {
	return c.bad.dry[kind+"@"+region] || c.bad.dry["@"+region]
}

// launchFailure is what the next launch fails with, if it does. The lock is held.
func (c *Cloud) launchFailure() (Failure, bool) {
	if len(c.bad.launches) == 0 {
		return Failure{}, false
	}
	first := &c.bad.launches[0]
	if first.after > 0 {
		first.after--
		return Failure{}, false
	}
	f := first.failure
	c.bad.launches = c.bad.launches[1:]
	return f, true
}
