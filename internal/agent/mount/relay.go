package mount

import (
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// relay forwards requests to Azure with the current signature. It listens on loopback and identifies rclone by a
// secret, the first segment of the path. In the URLs of an emulator, this segment is the account's name.
type relay struct {
	url    string
	server *http.Server
	creds  atomic.Pointer[grant.Credentials]
}

func newRelay(creds grant.Credentials) (*relay, error) {
	target, err := url.Parse(creds.Endpoint)
	if err != nil || target.Host == "" {
		return nil, errors.New("the store's address is not a URL")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	secret := strings.ToLower(rand.Text())
	r := &relay{url: "http://" + l.Addr().String() + "/" + secret}
	r.set(creds)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			rest := strings.TrimPrefix(p.In.URL.EscapedPath(), "/"+secret)
			out := *target
			out.RawPath = strings.TrimSuffix(target.EscapedPath(), "/") + rest
			out.Path, _ = url.PathUnescape(out.RawPath) // cannot fail: it was parsed before
			query := p.In.URL.Query()
			query.Del("relay")
			out.RawQuery = strings.TrimPrefix(query.Encode()+"&"+r.creds.Load().Query, "&")
			p.Out.URL, p.Out.Host = &out, target.Host
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	r.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, req *http.Request) {
			if !strings.HasPrefix(req.URL.EscapedPath(), "/"+secret+"/") {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			proxy.ServeHTTP(w, req)
		})}
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

func (r *relay) set(creds grant.Credentials) { r.creds.Store(&creds) }

func (r *relay) close() { _ = r.server.Close() }
