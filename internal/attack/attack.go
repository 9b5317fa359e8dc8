// Package attack tries everything that a task could do to a deployment with the data on its machine. It calls every
// path and method of the API with every secret, uses the names of other attempts wherever a name is accepted, and
// sends misleading paths and URIs. Its result depends not on the answers but on the changes: a test compares
// everything that is stored before and after. The package is only for tests.
package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Target is a deployment, and the attempt that attacks it.
type Target struct {
	API      string // base URL
	Document []byte // OpenAPI
	// Found is everything that a task can read on its machine, unmodified.
	Found string
	// Session is the token of the attempt's own agent, which a task cannot read. It gives access only to the
	// attempt's own data.
	Session string
	Own     wire.Claims
	Others  []wire.Claims // attempts of other jobs
	// Foreign are URIs of objects that the attempt may not write; some of them exist. Folder is the URI of the
	// attempt's own outputs.
	Foreign []string
	Folder  string
	// Signed means that the store checks the signatures of grants; emulators do not.
	Signed bool
	// Names are values for path parameters, in addition to those derived from Others.
	Names map[string][]string
	// State returns everything that is stored, by name, and Mine reports whether a name belongs to the attempt.
	State func() map[string]string
	Mine  func(name string) bool
}

// Report is the result of an attack.
type Report struct {
	Requests int
	Secrets  int
	Answers  map[int]int // by status
	Granted  []string    // grants that the session got, as "op uri"
}

func (r Report) String() string {
	return fmt.Sprintf("%d requests with %d secrets, answers %v, granted %d", r.Requests, r.Secrets, r.Answers,
		len(r.Granted))
}

// attacker is one run of an attack.
type attacker struct {
	testing.TB
	Target
	client *http.Client
	report Report
	routes []route
}

// route is an operation of the API.
type route struct {
	method, path string
	agents       bool // for agents' tokens
}

// Run attacks the target. It fails the test for each answer that reveals something and for each change outside the
// attempt's own data.
func Run(t testing.TB, target Target) Report {
	t.Helper()
	a := &attacker{TB: t, Target: target, report: Report{Answers: map[int]int{}}, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	a.readRoutes()
	before := target.State()
	secrets := Secrets(target.Found)
	a.report.Secrets = len(secrets)
	for _, s := range secrets {
		a.tryEveryPath(s, false)
	}
	a.tryCrookedPaths(append(secrets, target.Session))
	a.tryData()
	a.tryEveryPath(target.Session, true) // last: it may end its own attempt
	Compare(t, before, target.State(), target.Mine)
	return a.report
}

// Compare fails the test for all differences outside the attempt's own data.
func Compare(t testing.TB, before, after map[string]string, mine func(string) bool) {
	t.Helper()
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, there := before[name]
		is, left := after[name]
		if (was != is || there != left) && !mine(name) {
			t.Errorf("%s has changed:\nfrom %.500q\nto   %.500q", name, was, is)
		}
	}
}

var (
	jwt   = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]*`)
	words = regexp.MustCompile(`[A-Za-z0-9_+/=-]{20,}`)
)

// maxWords is the maximum number of words that are tried only because they look like secrets.
const maxWords = 40

// Secrets returns the strings in a text that could be secrets: first the tokens, then the longest words.
func Secrets(found string) []string {
	var out []string
	for _, s := range jwt.FindAllString(found, -1) {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	tokens := len(out)
	for _, s := range words.FindAllString(jwt.ReplaceAllString(found, " "), -1) {
		if !slices.Contains(out, s) && len(out) < tokens+maxWords {
			out = append(out, s)
		}
	}
	return out
}

// readRoutes reads the API's document, so that new operations are attacked automatically.
func (a *attacker) readRoutes() {
	a.Helper()
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(a.Document, &doc); err != nil || len(doc.Paths) == 0 {
		a.Fatalf("the API's document: %v", err)
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			a.routes = append(a.routes, route{method, path, strings.HasPrefix(path, "/v1/agent/")})
		}
	}
}

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// fill returns paths with their parameters filled in: with the first values of all, then with the second, and so on.
func (a *attacker) fill(path string, victim wire.Claims) []string {
	names := map[string][]string{"id": {victim.Job}, "job": {victim.Job}, "attempt": {victim.Cluster}}
	maps.Copy(names, a.Names)
	most := 1
	for _, m := range parameter.FindAllStringSubmatch(path, -1) {
		most = max(most, len(names[m[1]]))
	}
	var out []string
	for i := range most {
		out = append(out, parameter.ReplaceAllStringFunc(path, func(p string) string {
			values := names[p[1:len(p)-1]]
			if len(values) == 0 {
				return "1"
			}
			return values[i%len(values)]
		}))
	}
	return out
}

// body returns a request body that has every field of any operation, in the name of a victim.
func (a *attacker) body(victim wire.Claims, i int) []byte {
	uri := a.Foreign[i%len(a.Foreign)]
	raw, err := json.Marshal(map[string]any{
		"id": fmt.Sprint("forged-", i), "attempt": victim.Cluster, "event": "failed", "exitCode": 1,
		"message": "forged", "phase": "run", "address": "10.6.6.6", "version": "forged",
		"nonce": fmt.Sprint("forged", i), "step": "begin", "uri": uri, "prefix": uri, "upload": "1",
		"wants": []grant.Want{{Op: grant.Put, URI: uri, Size: 6}}, "how": "now", "reason": "forged", "quota": 1,
		"pieces": []map[string]any{{"digest": strings.Repeat("a", 64), "size": 1}}, "name": "forged",
		"ids": []string{"1"},
		"job": victim.Job, "cluster": victim.Cluster, "rank": victim.Rank, "boot": false,
	})
	if err != nil {
		a.Fatal(err)
	}
	return raw
}

// tryEveryPath tries a secret on all operations, as a user's and as an agent's token, in the name of each victim.
func (a *attacker) tryEveryPath(secret string, session bool) {
	a.Helper()
	for _, r := range a.routes {
		for i, victim := range a.Others {
			for j, path := range a.fill(r.path, victim) {
				query := "?attempt=" + victim.Cluster + "&offset=0&seen=0&wait=0s"
				if !r.agents {
					query = "" // users' operations reject unknown parameters
				}
				for _, header := range []string{"Authorization", "Cookie"} {
					if header == "Cookie" && (r.agents || j > 0) {
						continue
					}
					status := a.try(r.method, path+query, header, secret, a.body(victim, i+j))
					a.checkStatus(r, path, status, session)
				}
			}
		}
	}
}

// checkStatus fails the test if an answer reveals something. An agent's session may get its own data. A booting machine
// may learn the URL of the agent's program, which is not secret.
func (a *attacker) checkStatus(r route, path string, status int, session bool) {
	a.Helper()
	taken := status < http.StatusMultipleChoices
	if taken && (!r.agents || !session) {
		a.Errorf("%s %s was accepted with %d", r.method, path, status)
	}
	if status >= http.StatusInternalServerError && status != http.StatusNotImplemented {
		a.Errorf("%s %s caused a server error: %d", r.method, path, status)
	}
}

// try makes a request.
func (a *attacker) try(method, path, header, secret string, body []byte) int {
	a.Helper()
	req, err := http.NewRequest(method, a.API, bytes.NewReader(body))
	if err != nil {
		a.Fatal(err)
	}
	raw, query, _ := strings.Cut(path, "?")
	req.URL.Opaque = "//" + req.URL.Host + raw // unmodified: no client may clean the path
	req.URL.RawQuery = query
	switch header {
	case "Cookie":
		req.Header.Set("Cookie", "tradewind="+secret+"; session="+secret)
	default:
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := a.client.Do(req)
	if err != nil {
		return 0 // the server closed the connection without doing it
	}
	defer res.Body.Close()                                      //nolint:errcheck // only read
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20)) //nolint:gosec // errors do not matter
	a.report.Requests++
	a.report.Answers[res.StatusCode]++
	return res.StatusCode
}

// tryCrookedPaths tries paths that begin like an agent's but should lead elsewhere, and the other way round.
func (a *attacker) tryCrookedPaths(secrets []string) {
	a.Helper()
	victim := a.Others[0].Job
	for _, secret := range secrets {
		for _, path := range []string{
			"/v1/agent/../jobs", "/v1/agent/../jobs/" + victim + "/cancel",
			"/v1/agent/%2e%2e/jobs/" + victim + "/cancel", "/v1/agent/..%2fjobs", "/v1/agent/.%2e/jobs",
			"//v1/jobs", "/v1//jobs", "/v1/./jobs", "/V1/jobs", "/v1/jobs/", "/v1/jobs%2f" + victim,
			"/v1/agent/hello/../../jobs", "/v1/agent/program/../../jobs", "/v1/agent\\..\\jobs",
			"/v1/agent/;/../jobs", "/v1/agent/pools/p/../../../jobs", "/v1/jobs?token=" + secret,
			"/?token=" + secret, "/v1/objects/", "/v1/objects/../../token",
			"/v1/objects/%2e%2e/%2e%2e/token", "/v1/objects/..%2f..%2fkey",
		} {
			for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
				status := a.try(method, path, "Authorization", secret, a.body(a.Others[0], 0))
				if status >= 200 && status < 300 {
					a.Errorf("%s %s was accepted with %d", method, path, status)
				}
			}
		}
	}
}
