package deploytest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// Rewriting is a proxy for an emulator that changes its answers.
func Rewriting(t *testing.T, endpoint string, change func(request, answer string) string) string {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(request))
		proxy := httputil.NewSingleHostReverseProxy(target)
		proxy.ModifyResponse = func(res *http.Response) error {
			answer, err := io.ReadAll(res.Body)
			if err != nil {
				return err
			}
			text := change(string(request), string(answer))
			res.Body, res.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
			res.Header.Set("Content-Length", strconv.Itoa(len(text)))
			return nil
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// WithRegions adds the output with the regions to a deployed stack: moto has no outputs of a stack that a change set
// made.
func WithRegions(stack, regions string) func(request, answer string) string {
	return func(request, answer string) string {
		if !strings.Contains(request, "Action=DescribeStacks&") ||
			!strings.Contains(request, "StackName="+stack+"&") {
			return answer
		}
		return strings.Replace(
			answer,
			"</StackStatus>",
			"</StackStatus><Outputs><member><OutputKey>Regions</OutputKey>"+
				"<OutputValue>"+regions+"</OutputValue></member></Outputs>",
			1,
		)
	}
}
