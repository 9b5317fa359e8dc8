package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	awsevents "github.com/aws/aws-lambda-go/events"
)

// MaxAnswer is the maximum size of a response: Lambda's limit (6 MB, after base64) less the envelope.
const MaxAnswer = 4 << 20

// mostText is the maximum size, in bytes, of a response that is sent as text. In the JSON for Lambda a control
// character takes six bytes, and coloured output is full of them; base64 always takes four for three.
const mostText = 1 << 20

// recorder collects a response. It ends a stream if nothing follows a flush for a while, or when the maximum size is
// reached. Trailers become headers, since the response is sent as a whole.
type recorder struct {
	header http.Header
	end    context.CancelFunc
	quiet  time.Duration
	zip    bool // the client accepts gzip

	mu     sync.Mutex
	status int
	sent   http.Header // a copy from when the status was written
	body   bytes.Buffer
	timer  *time.Timer
	full   bool
}

// zipFrom is the size in bytes from which on a response is compressed.
const zipFrom = 4 << 10

func zipped(body []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(body) // to memory
	_ = w.Close()
	return out.Bytes()
}

func newRecorder(end context.CancelFunc, quiet time.Duration) *recorder {
	return &recorder{header: http.Header{}, end: end, quiet: quiet}
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeHeader(status)
}

func (r *recorder) writeHeader(status int) {
	if r.status == 0 && status >= 200 { // 1xx are not final
		r.status, r.sent = status, r.header.Clone()
	}
}

// Write implements http.ResponseWriter. It fails if the response becomes too large.
func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeHeader(http.StatusOK)
	if r.timer != nil {
		r.timer.Stop() // the stream is not silent
	}
	if r.full || r.body.Len()+len(b) > MaxAnswer {
		r.full = true
		r.end()
		return 0, http.ErrContentLength
	}
	return r.body.Write(b)
}

// stream reports whether the response is a stream: it was flushed, or disables buffering.
func (r *recorder) stream() bool { return r.timer != nil || r.sent.Get("X-Accel-Buffering") == "no" }

// Flush implements http.Flusher: the response is a stream, which ends if nothing follows for a while.
func (r *recorder) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer == nil {
		r.timer = time.AfterFunc(r.quiet, r.end)
		return
	}
	r.timer.Reset(r.quiet)
}

func (r *recorder) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
	}
}

// answer returns the response for Lambda.
func (r *recorder) answer() awsevents.APIGatewayV2HTTPResponse {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full && !r.stream() { // only a stream may be cut anywhere
		return awsevents.APIGatewayV2HTTPResponse{
			StatusCode: http.StatusRequestEntityTooLarge,
			Headers:    map[string]string{"Content-Type": "application/problem+json"},
			Body: `{"title":"Content Too Large","status":413,` +
				`"detail":"the response is larger than Lambda can return; request less of it"}`,
		}
	}
	r.writeHeader(http.StatusOK)
	out := awsevents.APIGatewayV2HTTPResponse{StatusCode: r.status, Headers: map[string]string{}}
	for name, values := range r.sent {
		if name == "Set-Cookie" {
			out.Cookies = values
			continue
		}
		out.Headers[name] = strings.Join(values, ", ")
	}
	for name, values := range r.header {
		if trailer, is := strings.CutPrefix(name, http.TrailerPrefix); is {
			out.Headers[trailer] = strings.Join(values, ", ")
		}
	}
	body := r.body.Bytes()
	if _, set := out.Headers["Content-Type"]; !set && len(body) > 0 {
		out.Headers["Content-Type"] = http.DetectContentType(body)
	}
	if r.zip && len(body) >= zipFrom && r.sent.Get("Content-Encoding") == "" {
		body = zipped(body)
		out.Headers["Content-Encoding"] = "gzip"
		out.Body, out.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
		return out
	}
	if len(body) <= mostText && utf8.Valid(body) && r.sent.Get("Content-Encoding") == "" {
		out.Body = string(body)
	} else {
		out.Body, out.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
	}
	return out
}
