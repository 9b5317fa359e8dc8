// Package kubeapi calls a cluster's API for the command line and the broker: it applies, reads, lists and removes
// objects by path, and forwards ports of pods. It has no Kubernetes types: an object is its decoded JSON.
//
// client-go reads the kubeconfig, its contexts and logins; the calls themselves are plain HTTP.
package kubeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Object is an object of a cluster, decoded from JSON.
type Object map[string]any

// API calls the API server of one cluster.
type API struct {
	config *rest.Config
	http   *http.Client
	base   string
	// Namespace is the namespace of the context, or of the pod in which this process runs.
	Namespace string
	// Context is the name of the context; empty in a pod.
	Context string
}

// callWithin limits the time of one call, except watches.
const callWithin = time.Minute

// Open reads the kubeconfig as kubectl does ($KUBECONFIG, ~/.kube/config) and opens the context name, or its current
// context if name is empty. In a pod without a kubeconfig it opens the pod's own cluster.
func Open(name string) (*API, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{
		CurrentContext: name,
	})
	raw, err := loaded.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, err
	}
	a, err := New(config)
	if err != nil {
		return nil, err
	}
	a.Namespace, a.Context = namespace, name
	if name == "" {
		a.Context = raw.CurrentContext
	}
	return a, nil
}

// New returns an API for a client configuration.
func New(config *rest.Config) (*API, error) {
	config = rest.CopyConfig(config)
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	return &API{config: config, http: c, base: strings.TrimSuffix(base.String(), "/"), Namespace: "default"}, nil
}

// HTTP returns the server's URL, and a client with the credentials of the context or the pod.
func (a *API) HTTP() (endpoint string, client *http.Client) { return a.base, a.http }

// Error is an error response of the API server, in the server's words.
type Error struct {
	Code    int
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the API server answered %d", e.Code)
	}
	return e.Message
}

// NotFound reports whether an error means that the object, or its kind, does not exist.
func NotFound(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == http.StatusNotFound
}

// Conflict reports whether an error means that the object already exists, or has changed since it was read.
func Conflict(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == http.StatusConflict
}

// The media types of requests.
const (
	mediaJSON  = "application/json"
	mediaApply = "application/apply-patch+yaml"
	mediaMerge = "application/merge-patch+json"
)

// Get reads the object at a path, such as /api/v1/namespaces/x/pods/y.
func (a *API) Get(ctx context.Context, path string) (Object, error) {
	return a.call(ctx, http.MethodGet, path, nil, "", nil)
}

// Create creates an object; path is that of the list.
func (a *API) Create(ctx context.Context, path string, o Object) (Object, error) {
	return a.call(ctx, http.MethodPost, path, nil, mediaJSON, o)
}

// Apply creates the object at a path, or changes it to the fields of o. Fields that only others have set are kept
// (server-side apply). With dryRun the server only checks the object.
func (a *API) Apply(ctx context.Context, path string, o Object, dryRun bool) (Object, error) {
	q := url.Values{"fieldManager": {"tradewind"}, "force": {"true"}, "fieldValidation": {"Strict"}}
	if dryRun {
		q.Set("dryRun", "All")
	}
	return a.call(ctx, http.MethodPatch, path, q, mediaApply, o)
}

// Merge changes the given fields of the object at a path (JSON merge patch).
func (a *API) Merge(ctx context.Context, path string, o Object) (Object, error) {
	return a.call(ctx, http.MethodPatch, path, nil, mediaMerge, o)
}

// Delete removes the object at a path and its dependents. A missing object is no error.
func (a *API) Delete(ctx context.Context, path string) error {
	_, err := a.call(ctx, http.MethodDelete, path, url.Values{"propagationPolicy": {"Background"}}, "", nil)
	if NotFound(err) {
		return nil
	}
	return err
}

func (a *API) call(ctx context.Context, method, path string, q url.Values, media string, body Object) (Object, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	answer, err := a.send(ctx, method, path, q, media, body)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // only read from
	var out Object
	err = json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&out)
	return out, err
}

// maxAnswer limits the length of a response in bytes.
const maxAnswer = 64 << 20

// send makes a request. It returns error responses as *Error.
func (a *API) send(ctx context.Context, method, path string, q url.Values, media string, body Object) (*http.Response,
	error) {
	address := a.base + path
	if len(q) > 0 {
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		address += sep + q.Encode()
	}
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", mediaJSON)
	if media != "" {
		r.Header.Set("Content-Type", media)
	}
	answer, err := a.http.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode < http.StatusMultipleChoices {
		return answer, nil
	}
	defer answer.Body.Close() //nolint:errcheck // only read from
	e := &Error{Code: answer.StatusCode}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if json.Unmarshal(text, e) != nil {
		e.Message = strings.TrimSpace(string(text))
	}
	e.Code = answer.StatusCode
	return nil, e
}

// At returns the value at a path of keys; nil if there is none.
func (o Object) At(keys ...string) any {
	var v any = map[string]any(o)
	for _, k := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[k]
	}
	return v
}

// Text returns the string at a path of keys; empty if there is none.
func (o Object) Text(keys ...string) string {
	s, _ := o.At(keys...).(string)
	return s
}

// Items returns the objects of a list.
func (o Object) Items() []Object {
	list, _ := o["items"].([]any)
	out := make([]Object, 0, len(list))
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// Path returns the URL path of an object, or of a list if name is empty. plural names the kind; namespace is empty
// for kinds without namespaces.
func Path(version, plural, namespace, name string) string {
	p := "/apis/" + version
	if !strings.Contains(version, "/") {
		p = "/api/" + version
	}
	if namespace != "" {
		p += "/namespaces/" + url.PathEscape(namespace)
	}
	p += "/" + plural
	if name != "" {
		p += "/" + url.PathEscape(name)
	}
	return p
}
