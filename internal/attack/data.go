package attack

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// tryData requests everything that does not belong to the attempt, with its own agent's session.
func (a *attacker) tryData() {
	a.Helper()
	for _, uri := range a.crookedURIs() {
		for _, op := range []grant.Op{grant.Put, grant.Part, "delete", "list", grant.Get} {
			want := grant.Want{Op: op, URI: uri, Size: int64(len(forged))}
			if op == grant.Part {
				want.Upload, want.Number = "1", 1
			}
			if op == grant.Get {
				want.Size = 0
			}
			granted, status := a.want(want)
			if status != http.StatusOK {
				continue
			}
			a.report.Granted = append(a.report.Granted, string(op)+" "+uri)
			if op == grant.Get && a.foreign(uri) {
				a.Errorf("%s can be read", uri)
			}
			for _, g := range granted.Grants {
				a.use(g)
			}
		}
		for _, step := range []wire.Upload{
			{Step: wire.UploadBegin},
			{Step: wire.UploadComplete, Upload: "1", Parts: []grant.Uploaded{{Number: 1, ETag: "x"}}},
			{Step: wire.UploadAbort, Upload: "1"},
		} {
			step.Attempt, step.URI = a.Own.Cluster, uri
			status := a.ask(wire.PathUploads, step, nil)
			if status == http.StatusOK && a.foreign(uri) && step.Step == wire.UploadBegin {
				a.Errorf("an upload to %s could be started", uri)
			}
		}
		var page grant.Page
		status := a.ask(wire.PathList, wire.Listing{Attempt: a.Own.Cluster, Prefix: uri}, &page)
		if status == http.StatusOK && a.foreign(uri) {
			a.Errorf("%s can be listed: %v", uri, page.Objects)
		}
	}
	a.ask(wire.PathPrune, wire.Pruning{Attempt: a.Others[0].Cluster}, nil)
	a.tamper()
}

const forged = "forged"

// want requests one grant.
func (a *attacker) want(w grant.Want) (granted wire.Granted, status int) {
	a.Helper()
	wants := wire.Wants{Attempt: a.Own.Cluster, Wants: []grant.Want{w}}
	status = a.ask(wire.PathGrants, wants, &granted)
	return granted, status
}

// foreign reports whether a URI is literally one of the foreign ones.
func (a *attacker) foreign(uri string) bool {
	for _, f := range a.Foreign {
		if uri == f {
			return true
		}
	}
	return false
}

// crookedURIs returns the foreign URIs, and variants of them that look like the attempt's own.
func (a *attacker) crookedURIs() []string {
	var out []string
	for _, uri := range a.Foreign {
		out = append(out, uri)
		scheme, rest, _ := strings.Cut(uri, "://")
		bucket, key, _ := strings.Cut(rest, "/")
		up := strings.Repeat("../", 1+strings.Count(strings.TrimPrefix(a.Folder, scheme+"://"), "/"))
		out = append(out,
			a.Folder+up+rest, a.Folder+strings.ReplaceAll(up, "..", "%2e%2e")+rest,
			a.Folder+strings.ReplaceAll(up, "/", "%2f")+rest, a.Folder+"..\\"+key, a.Folder+"./"+key,
			a.Folder+"/"+rest, a.Folder+"\x00/../"+key, a.Folder+"#/../"+key, a.Folder+"?/../"+key,
			strings.ToUpper(scheme)+"://"+rest, scheme+"://"+bucket+"//"+key, scheme+"://"+bucket+"/./"+key,
			scheme+"://x@"+rest, scheme+":///"+key,
			"file:///etc/passwd", "http://127.0.0.1/"+key, "https://example.com/"+key, "gs://"+rest, "", "/", key,
		)
	}
	return append(out, strings.TrimSuffix(a.Folder, "/")+"x/forged", a.Folder[:len(a.Folder)-2])
}

// ask posts with the session's token.
func (a *attacker) ask(path string, v, answer any) int {
	a.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		return 0 // not valid JSON
	}
	req, err := http.NewRequest(http.MethodPost, a.API+path, bytes.NewReader(raw))
	if err != nil {
		a.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.Session)
	req.Header.Set("Content-Type", "application/json")
	res, err := a.client.Do(req)
	if err != nil {
		a.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // only read
	a.report.Requests++
	a.report.Answers[res.StatusCode]++
	if res.StatusCode >= http.StatusInternalServerError && res.StatusCode != http.StatusNotImplemented {
		a.Errorf("%s caused a server error with %.300s: %s", path, raw, res.Status)
	}
	if answer != nil && res.StatusCode == http.StatusOK {
		if err := json.NewDecoder(res.Body).Decode(answer); err != nil {
			a.Fatal(err)
		}
	}
	return res.StatusCode
}

// use sends the granted request.
func (a *attacker) use(g grant.Grant) int {
	a.Helper()
	target, err := url.Parse(g.URL)
	if err != nil {
		a.Fatal(err)
	}
	base, err := url.Parse(a.API)
	if err != nil {
		a.Fatal(err)
	}
	return a.send(g, base.ResolveReference(target))
}

func (a *attacker) send(g grant.Grant, target *url.URL) int {
	a.Helper()
	body := forged
	if g.Method == http.MethodGet {
		body = ""
	}
	req, err := http.NewRequest(g.Method, "http://x", strings.NewReader(body))
	if err != nil {
		a.Fatal(err)
	}
	req.URL, req.Host = target, target.Host
	for name, v := range g.Header {
		req.Header.Set(name, v)
	}
	res, err := a.client.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close() //nolint:errcheck // only read
	_, _ = io.Copy(io.Discard, res.Body)
	a.report.Requests++
	a.report.Answers[res.StatusCode]++
	return res.StatusCode
}

// tamper gets a grant for the attempt's own object and changes its URL to other objects. It only makes sense for
// stores that check signatures.
func (a *attacker) tamper() {
	a.Helper()
	own := a.Folder + "own"
	granted, status := a.want(grant.Want{Op: grant.Put, URI: own, Size: int64(len(forged))})
	if status != http.StatusOK {
		a.Fatalf("the request for its own output was answered with %d, so nothing was tried", status)
	}
	g := granted.Grants[0]
	if status := a.use(g); status >= http.StatusMultipleChoices {
		a.Errorf("writing its own output was answered with %d", status)
	}
	if !a.Signed {
		return
	}
	for _, uri := range a.Foreign {
		_, key, _ := strings.Cut(strings.TrimPrefix(uri, "file://"), "/")
		_, ownKey, _ := strings.Cut(strings.TrimPrefix(own, "file://"), "/")
		for _, change := range []func(string) string{
			func(s string) string { return strings.Replace(s, ownKey, key, 1) },
			func(s string) string { return strings.Replace(s, ownKey, ownKey+"/../../../../../"+key, 1) },
			func(s string) string { return strings.Replace(s, ownKey, ownKey+"%2f..%2f..%2f"+key, 1) },
			func(s string) string { return strings.Replace(s, "?", "x?", 1) },
			func(s string) string { return s + "&sig=x" },
		} {
			changed := g
			if changed.URL = change(g.URL); changed.URL == g.URL {
				continue
			}
			if status := a.use(changed); status >= 200 && status < 300 {
				path, _, _ := strings.Cut(changed.URL, "?")
				a.Errorf("a grant that was changed to %s was accepted with %d", path, status)
			}
		}
	}
}
