package gateway_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	awsevents "github.com/aws/aws-lambda-go/events"

	"github.com/tradewind-broker/tradewind/internal/lambdahost/gateway"
)

func document(t *testing.T, name string) (in awsevents.APIGatewayV2HTTPRequest) {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func serve(t *testing.T, in awsevents.APIGatewayV2HTTPRequest, h http.HandlerFunc) awsevents.APIGatewayV2HTTPResponse {
	t.Helper()
	g := &gateway.Gateway{Handler: h, UserToken: "the-token-of-this-sandbox"}
	out, err := g.Serve(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRequestConversion(t *testing.T) {
	in := document(t, "iam")
	in.RawPath, in.RequestContext.HTTP.Method = "/v1/dags/a%20b", http.MethodPost
	in.Body, in.IsBase64Encoded = base64.StdEncoding.EncodeToString([]byte("name: \xff")), true
	serve(t, in, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.URL.Path != "/v1/dags/a b" || r.URL.Query().Get("limit") != "5" || string(body) != "name: \xff" ||
			r.Host != "abc123.execute-api.us-east-1.amazonaws.com" || r.Header.Get("Accept") != "application/json,text/plain" ||
			r.RemoteAddr != "203.0.113.7" || r.ContentLength != 7 {
			t.Errorf("%s %s from %s: %q %v", r.Method, r.URL, r.RemoteAddr, body, r.Header)
		}
	})
}

func TestStageIsRemovedFromPath(t *testing.T) {
	in := document(t, "iam")
	in.RequestContext.Stage, in.RawPath = "prod", "/prod/v1/jobs"
	serve(t, in, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/jobs" {
			t.Error(r.URL.Path)
		}
	})
}

func TestOnlyIAMUsersGetUserToken(t *testing.T) {
	authority := func(in awsevents.APIGatewayV2HTTPRequest) (header, cookie string) {
		serve(t, in, func(_ http.ResponseWriter, r *http.Request) {
			header, cookie = r.Header.Get("Authorization"), r.Header.Get("Cookie")
		})
		return header, cookie
	}
	user := document(t, "iam")
	if h, c := authority(user); h != "Bearer the-token-of-this-sandbox" || c != "" {
		t.Errorf("a user: %q %q", h, c)
	}
	user.RequestContext.Authorizer = nil
	if h, c := authority(user); h != "" || c != "" {
		t.Errorf("without an identity: %q %q", h, c)
	}
	if h, _ := authority(document(t, "agent")); h != "Bearer AGENT" {
		t.Errorf("an agent: %q", h)
	}
	sly := document(t, "agent")
	sly.RawPath = "/v1/agent/../jobs"
	if h, _ := authority(sly); strings.Contains(h, "sandbox") {
		t.Errorf("an agent that climbs: %q", h)
	}
}

func TestLogsCallerOfChanges(t *testing.T) {
	var log bytes.Buffer
	in := document(t, "iam")
	in.RequestContext.HTTP.Method = http.MethodPost
	g := &gateway.Gateway{Handler: http.NotFoundHandler(), UserToken: "the-token-of-this-sandbox", Log: slog.New(slog.NewJSONHandler(&log, nil))}
	if _, err := g.Serve(context.Background(), in); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "arn:aws:iam::123456789012:user/ada") || strings.Contains(log.String(), "Signature") || strings.Contains(log.String(), "sandbox") {
		t.Error(log.String())
	}
}

func TestResponseConversion(t *testing.T) {
	out := serve(t, document(t, "iam"), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Vary", "a")
		w.Header().Add("Vary", "b")
		w.Header().Add("Set-Cookie", "x=1")
		w.Header().Add("Set-Cookie", "y=2")
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("Late", "1")
		_, _ = io.WriteString(w, "häh?")
	})
	if out.StatusCode != http.StatusTeapot || out.Headers["Vary"] != "a, b" || len(out.Cookies) != 2 || out.Headers["Set-Cookie"] != "" ||
		out.Headers["Late"] != "" || out.Body != "häh?" || out.IsBase64Encoded || out.Headers["Content-Type"] == "" {
		t.Errorf("%+v", out)
	}
	out = serve(t, document(t, "iam"), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{0xff, 0}) })
	if raw, err := base64.StdEncoding.DecodeString(out.Body); err != nil || !out.IsBase64Encoded || !bytes.Equal(raw, []byte{0xff, 0}) {
		t.Errorf("%+v", out)
	}
	if out = serve(t, document(t, "iam"), func(http.ResponseWriter, *http.Request) {}); out.StatusCode != http.StatusOK {
		t.Errorf("%+v", out)
	}
}

func TestTooLargeResponseIsProblem(t *testing.T) {
	out := serve(t, document(t, "iam"), func(w http.ResponseWriter, _ *http.Request) {
		for range 5 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
		t.Error("the whole body was accepted")
	})
	if out.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%d, %d bytes", out.StatusCode, len(out.Body))
	}
}

// Lambda takes 6 MB of JSON, in which an escape sequence of four bytes has nine.
func TestColouredLogFitsIntoResponse(t *testing.T) {
	colour := bytes.Repeat([]byte("\x1b[0m"), gateway.MaxAnswer/4)
	out := serve(t, document(t, "iam"), func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.Write(colour); err != nil {
			t.Error(err)
		}
	})
	body, err := base64.StdEncoding.DecodeString(out.Body)
	if !out.IsBase64Encoded || err != nil || !bytes.Equal(body, colour) {
		t.Errorf("%d bytes, in base64: %v, %v", len(out.Body), out.IsBase64Encoded, err)
	}
	if raw, err := json.Marshal(out); err != nil || len(raw) > 6<<20 {
		t.Errorf("Lambda is given %d bytes, %v", len(raw), err)
	}
}

func TestSilentStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := serve(t, document(t, "iam"), func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			rc := http.NewResponseController(w)
			for i := range 3 { // each comes before the stream would end for lack of data
				time.Sleep(100 * time.Millisecond)
				_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
				if err := rc.Flush(); err != nil {
					t.Error(err)
				}
			}
			<-r.Context().Done()
		})
		if out.Body != "data: 0\n\ndata: 1\n\ndata: 2\n\n" || out.StatusCode != http.StatusOK || out.Headers["Content-Type"] != "text/event-stream" {
			t.Errorf("%+v", out)
		}
	})
}

func TestAnswersBeforeDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 29*time.Second)
		defer cancel()
		g := &gateway.Gateway{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			w.WriteHeader(http.StatusServiceUnavailable)
		})}
		out, err := g.Serve(ctx, document(t, "iam"))
		if err != nil || ctx.Err() != nil || out.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%+v %v %v", out, err, ctx.Err())
		}
	})
}

func TestRejectsUnreadableRequest(t *testing.T) {
	for name, change := range map[string]func(*awsevents.APIGatewayV2HTTPRequest){
		"a body": func(in *awsevents.APIGatewayV2HTTPRequest) { in.Body, in.IsBase64Encoded = "%%%", true },
		"a path": func(in *awsevents.APIGatewayV2HTTPRequest) { in.RawPath = "/%zz" },
		"a verb": func(in *awsevents.APIGatewayV2HTTPRequest) { in.RequestContext.HTTP.Method = "no verb" },
	} {
		in := document(t, "iam")
		change(&in)
		out := serve(t, in, func(http.ResponseWriter, *http.Request) { t.Errorf("%s: it was handled", name) })
		if out.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", name, out.StatusCode)
		}
	}
}

func FuzzServe(f *testing.F) {
	f.Add("/v1/jobs", "a=b", "GET", "", false)
	f.Add("/v1/agent/../jobs", "%zz", "POST", "eA==", true)
	f.Fuzz(func(t *testing.T, path, query, method, body string, encoded bool) {
		g := &gateway.Gateway{UserToken: "the-token-of-this-sandbox", Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.Header.Get("Authorization"), "sandbox") {
				t.Error("a request without an identity was given one")
			}
		})}
		in := awsevents.APIGatewayV2HTTPRequest{RawPath: path, RawQueryString: query, Body: body, IsBase64Encoded: encoded}
		in.RequestContext.HTTP.Method, in.RequestContext.DomainName = method, "example.com"
		if out, err := g.Serve(context.Background(), in); err != nil || out.StatusCode == 0 {
			t.Errorf("%+v %v", out, err)
		}
	})
}
