package lambdacloud

import (
	"fmt"
	"net/http"
	"time"
)

// faults holds the injected failures.
type faults struct {
	launches []launchFault
	lost     int // how many of the next launches lose their answers
	lag      int // number of lists that lack a new machine
	throttle int // how many of the next requests are throttled
	dry      map[string]bool
	quota    int // maximum machines; 0 means no limit
	account  string
	revoked  bool
	down     bool
}

// launchFault makes a later launch fail.
type launchFault struct {
	after   int // launches that succeed before
	failure Failure
}

// Failure is an error answer of the API. Codes of the API description have its texts.
type Failure struct {
	Status     int
	Code       string
	Message    string
	Suggestion string
	RetryAfter time.Duration
}

// failures returns the errors that the API description lists or mentions in its prose.
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

// FailureOf returns the failure with a code, with the text of the API description.
func FailureOf(code string) Failure {
	f, ok := failures()[code]
	if !ok {
		panic(fmt.Sprintf("lambdacloud: no failure %q", code))
	}
	f.Code = code
	return f
}

// FailLaunch makes a launch fail, after the given number of successful ones: 0 means the next launch.
func (c *Cloud) FailLaunch(after int, f Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad.launches = append(c.bad.launches, launchFault{after, f})
}

// LoseAnswer makes the next launch succeed but lose its answer.
func (c *Cloud) LoseAnswer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad.lost++
}

// Lag makes new machines missing from their first lists.
func (c *Cloud) Lag(lists int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad.lag = lists
}

// Throttle rejects the given number of next requests, of any kind.
func (c *Cloud) Throttle(requests int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad.throttle = requests
}

// SetOutOfStock sets whether a region is out of a type, or out of all types if kind is empty.
func (c *Cloud) SetOutOfStock(kind, region string, is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bad.dry == nil {
		c.bad.dry = map[string]bool{}
	}
	c.bad.dry[kind+"@"+region] = is
}

// Quota limits the account's machines; 0 means no limit.
func (c *Cloud) Quota(machines int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad.quota = machines
}

// Revoke revokes the key, or restores it.
func (c *Cloud) Revoke(is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad.revoked = is
}

// Suspend makes all requests fail with a code: global/account-inactive. With global/invalid-address only launches fail.
// An empty code ends the suspension.
func (c *Cloud) Suspend(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad.account = code
}

// Down makes all connections break.
func (c *Cloud) Down(is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad.down = is
}

// outOfStock reports whether a type is not available in a region now. Callers hold the lock.
func (c *Cloud) outOfStock(kind, region string) bool {
	return c.bad.dry[kind+"@"+region] || c.bad.dry["@"+region]
}

// launchFailure returns the failure of the next launch, if it has one. Callers hold the lock.
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
