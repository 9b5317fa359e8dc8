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

// MaxAnswer is the largest answer that Lambda passes on (6 MB, base64 counted), less what its envelope takes.
const MaxAnswer = 4 << 20

// mostText is how much of an answer is passed on as text, bytes: in the JSON that Lambda is given a control character
// has six, and what tasks print in colour is full of them. Base64 has four for three, whatever it is.
const mostText = 1 << 20

// recorder collects an answer. A stream is ended when nothing has followed a flush for a while, or when it is as long
// as an answer can be. What would be its trailers are headers, as it is sent as a whole.
type recorder struct {
	header http.Header
	end    context.CancelFunc
	quiet  time.Duration
	zip    bool // the reader takes gzip

	mu     sync.Mutex
	status int
	sent   http.Header // as they were with the status
	body   bytes.Buffer
	timer  *time.Timer
	full   bool
}

// zipFrom is the length in bytes from which an answer is compressed.
const zipFrom = 4 << 10

func zipped(body []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(body) // into memory
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
	if r.status == 0 && status >= 200 { // earlier ones are only for connections
		r.status, r.sent = status, r.header.Clone()
	}
}

// Write implements http.ResponseWriter. What is too large for an answer fails it.
func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeHeader(http.StatusOK)
	if r.timer != nil {
		r.timer.Stop() // it is not quiet
	}
	if r.full || r.body.Len()+len(b) > MaxAnswer {
		r.full = true
		r.end()
		return 0, http.ErrContentLength
	}
	return r.body.Write(b)
}

// stream says whether the answer is one: it flushes, or asks that nobody hold it back.
func (r *recorder) stream() bool { return r.timer != nil || r.sent.Get("X-Accel-Buffering") == "no" }

// Flush implements http.Flusher: the answer is a stream, and it ends when nothing follows for a while.
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

// answer is what Lambda is given.
func (r *recorder) answer() awsevents.APIGatewayV2HTTPResponse {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full && !r.stream() { // not a stream, which may be cut anywhere
		return awsevents.APIGatewayV2HTTPResponse{
			StatusCode: http.StatusRequestEntityTooLarge,
			Headers:    map[string]string{"Content-Type": "application/problem+json"},
			Body: `{"title":"Content Too Large","status":413,` +
				`"detail":"the answer is larger than Lambda can pass on; ask for less of it"}`,
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
