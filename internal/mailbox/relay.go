package mailbox

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// relayEnd is the maximum time for which a relay that ends waits for open calls.
const relayEnd = 3 * time.Second

// Relay serves the transport at an address of this machine's loopback interface, for other processes of the machine
// that call the broker. It checks nothing: each call needs its own token, as over HTTP. It ends with ctx, or when the
// returned function is called.
func Relay(ctx context.Context, t *Transport) (endpoint string, end func(), err error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("mailbox: relay: %w", err)
	}
	to := &url.URL{Scheme: t.endpoint.Scheme, Host: t.endpoint.Host}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: &httputil.ReverseProxy{
		Transport: t, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
	}}
	go func() { _ = server.Serve(l) }()
	end = func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), relayEnd)
		defer cancel()
		if server.Shutdown(stop) != nil {
			_ = server.Close()
		}
	}
	context.AfterFunc(ctx, end)
	return "http://" + l.Addr().String(), end, nil
}
