// Package filegrant is the grant.Store of a local folder: an HTTP handler on loopback that serves only requests that it
// has signed itself, with HMAC. A file appears under its name when it is complete. No link leads out of the
// folder.
//
// Parts of a multipart upload are in the folder .uploads until the upload ends; objects there cannot be granted.
package filegrant

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

const (
	uploads = ".uploads" // the folder of multipart uploads
	temps   = uploads + "/tmp"
	nameOf  = "object" // the file of an upload that contains its object's key
	longest = 7 * 24 * time.Hour
)

// Query parameters of a grant's URL. A checksum's parameter has the name of its algorithm.
const (
	qExpires = "expires" // Unix seconds
	qRange   = "range"
	qSize    = "size"
	qNew     = "new"
	qUpload  = "upload"
	qPart    = "part"
	qSig     = "signature"
)

// Store is a folder. Make one with New, and serve it at Options.BaseURL.
type Store struct {
	root *os.Root
	dir  string // as in keys of file URIs: absolute, without the first and the last slash
	opts Options
	// completing holds the folders of uploads that are being completed. A caller that repeats Complete meanwhile,
	// because it got no answer in time, gets the answer of the first call.
	completing singleflight.Group
	creating   sync.Mutex // held while a new object is written
	kept       struct {
		sync.Mutex
		by   int      // calls of Keep that were not released
		late []string // objects to remove then
	}
}

// Options of a Store. BaseURL is required.
type Options struct {
	// BaseURL is the URL of the handler: "http://127.0.0.1:8080" plus the path at which it is mounted, or only that
	// path ("/objects") if holders of grants know the address.
	BaseURL string
	Key     []byte           // HMAC key, at least 32 bytes; nil means a random one, so grants end with the process
	Now     func() time.Time // nil means time.Now
}

// New opens the folder, which must exist. Call Close to release it.
func New(dir string, opts Options) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("filegrant: %w", err)
	}
	if opts.Key == nil {
		opts.Key = make([]byte, sha256.Size)
		_, _ = rand.Read(opts.Key) // never fails
	}
	if len(opts.Key) < sha256.Size {
		return nil, fmt.Errorf("filegrant: the key is shorter than %d bytes", sha256.Size)
	}
	if _, err := url.Parse(opts.BaseURL); err != nil || opts.BaseURL == "" {
		return nil, errors.New("filegrant: the base URL is missing or invalid")
	}
	opts.BaseURL = strings.TrimSuffix(opts.BaseURL, "/")
	if opts.Now == nil {
		opts.Now = time.Now
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("filegrant: %w", err)
	}
	if err := root.MkdirAll(temps, 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("filegrant: %w", err), root.Close())
	}
	return &Store{root: root, dir: strings.Trim(filepath.ToSlash(abs), "/"), opts: opts}, nil
}

// Close releases the folder.
func (s *Store) Close() error { return s.root.Close() }

// name returns an object's path below the folder.
func (s *Store) name(o grant.Object) (string, error) {
	name, below := strings.CutPrefix(o.Key, s.dir+"/")
	if o.Scheme != "file" || !below {
		return "", fmt.Errorf("%w: %s is not below the folder", grant.ErrStore, o)
	}
	if top, _, _ := strings.Cut(name, "/"); strings.EqualFold(top, uploads) { // some disks ignore case
		return "", fmt.Errorf("%w: %s is in the folder of uploads", grant.ErrURI, o)
	}
	return name, nil
}

// Sign implements grant.Signer. A grant lasts at most seven days.
func (s *Store) Sign(_ context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	grants := make([]grant.Grant, 0, len(wants))
	for _, w := range wants {
		o, err := w.Check()
		if err != nil {
			return nil, err
		}
		if _, err := s.name(o); err != nil {
			return nil, err
		}
		grants = append(grants, s.sign(o, w))
	}
	return grants, nil
}

func (s *Store) sign(o grant.Object, w grant.Want) grant.Grant {
	expires := s.opts.Now().Add(min(w.For, longest)).Truncate(time.Second)
	g := grant.Grant{Method: http.MethodGet, Expires: expires}
	q := url.Values{qExpires: {strconv.FormatInt(expires.Unix(), 10)}}
	if w.Range != nil {
		q.Set(qRange, w.Range.Header())
		g.Header = map[string]string{"Range": w.Range.Header()}
	}
	if w.Op != grant.Get {
		g.Method = http.MethodPut
		q.Set(qSize, strconv.FormatInt(w.Size, 10))
		if w.New {
			q.Set(qNew, "1")
		}
	}
	if w.Sum.Kind != "" {
		q.Set(string(w.Sum.Kind), base64.RawURLEncoding.EncodeToString(w.Sum.Value))
	}
	if w.Op == grant.Part {
		q.Set(qUpload, w.Upload)
		q.Set(qPart, strconv.Itoa(w.Number))
	}
	q.Set(qSig, s.signature(g.Method, o.Key, q))
	g.URL = s.opts.BaseURL + "/" + o.EscapedKey() + "?" + q.Encode()
	return g
}

// signature signs everything that the grant fixes. The lines cannot be confused with each other: a key has no control
// characters, and the query is encoded and sorted.
func (s *Store) signature(method, key string, q url.Values) string {
	terms := url.Values{}
	for k, v := range q {
		if k != qSig {
			terms[k] = v
		}
	}
	mac := hmac.New(sha256.New, s.opts.Key)
	mac.Write([]byte(method + "\n" + key + "\n" + terms.Encode())) // never fails
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Begin implements grant.Store.
func (s *Store) Begin(_ context.Context, uri string) (string, error) {
	o, err := grant.Parse(uri)
	if err != nil {
		return "", err
	}
	name, err := s.name(o)
	if err != nil {
		return "", err
	}
	upload := strings.ToLower(rand.Text())
	dir := path.Join(uploads, upload)
	if err := s.root.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("filegrant: begin: %w", err)
	}
	if err := s.root.WriteFile(path.Join(dir, nameOf), []byte(name), 0o600); err != nil {
		return "", errors.Join(fmt.Errorf("filegrant: begin: %w", err), s.root.RemoveAll(dir))
	}
	return upload, nil
}

// find returns the folder of an upload of the named object.
func (s *Store) find(name, upload string) (string, error) {
	dir := path.Join(uploads, upload)
	if !filepath.IsLocal(upload) || path.Dir(dir) != uploads || dir == temps {
		return "", fmt.Errorf("%w: bad upload name", grant.ErrUpload)
	}
	of, err := s.root.ReadFile(path.Join(dir, nameOf))
	if err != nil || string(of) != name {
		return "", fmt.Errorf("%w: %s of %q", grant.ErrUpload, upload, name)
	}
	return dir, nil
}

// Complete implements grant.Store.
func (s *Store) Complete(_ context.Context, uri, upload string, parts []grant.Uploaded) error {
	o, err := grant.Parse(uri)
	if err != nil {
		return err
	}
	name, err := s.name(o)
	if err != nil {
		return err
	}
	if parts, err = grant.CheckParts(parts); err != nil {
		return err
	}
	dir, err := s.find(name, upload)
	if err != nil {
		return err
	}
	_, err, _ = s.completing.Do(dir, func() (any, error) {
		if err := s.join(name, dir, parts); err != nil {
			return nil, fmt.Errorf("filegrant: complete %s: %w", o, err)
		}
		return nil, s.root.RemoveAll(dir)
	})
	return err
}

// join writes the parts one after the other into the object.
func (s *Store) join(name, dir string, parts []grant.Uploaded) error {
	return s.write(name, func(w io.Writer) error {
		for i, p := range parts {
			stored, err := s.part(dir, p)
			if err != nil {
				return err
			}
			n, err := io.Copy(w, stored)
			_ = stored.Close() // read only
			if err != nil {
				return err
			}
			if i < len(parts)-1 && n < grant.MinPart {
				return fmt.Errorf("%w: part %d is smaller than %d bytes", grant.ErrUpload, p.Number, grant.MinPart)
			}
		}
		return nil
	})
}

// part opens a part. The file name has number and ETag, so that a part that was sent again is another file.
func (s *Store) part(dir string, p grant.Uploaded) (*os.File, error) {
	etag := strings.Trim(p.ETag, `"`)
	if _, err := strconv.ParseUint(etag, 16, 64); err != nil { // the format of ETags from handler.go
		return nil, fmt.Errorf("%w: part %d has a bad ETag", grant.ErrUpload, p.Number)
	}
	f, err := s.root.Open(path.Join(dir, partFile(p.Number, etag)))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: part %d is missing", grant.ErrUpload, p.Number)
	}
	return f, err
}

func partFile(number int, etag string) string { return fmt.Sprintf("%d-%s", number, etag) }

// Abort implements grant.Store.
func (s *Store) Abort(_ context.Context, uri, upload string) error {
	o, err := grant.Parse(uri)
	if err != nil {
		return err
	}
	name, err := s.name(o)
	if err != nil {
		return err
	}
	dir, err := s.find(name, upload)
	if errors.Is(err, grant.ErrUpload) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.root.RemoveAll(dir)
}

// Sweep removes uploads and temporary files that were not written to since before, as left behind by a crash.
func (s *Store) Sweep(before time.Time) error {
	var failed error
	for _, dir := range []string{uploads, temps} {
		entries, err := os.ReadDir(filepath.Join(s.root.Name(), dir))
		if err != nil {
			return fmt.Errorf("filegrant: sweep: %w", err)
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			info, err := e.Info()
			if err != nil || name == temps || !info.ModTime().Before(before) {
				continue
			}
			failed = errors.Join(failed, s.root.RemoveAll(name))
		}
	}
	return failed
}

// write calls fill with a temporary file. If fill succeeds, it moves the file to name and replaces an existing one.
func (s *Store) write(name string, fill func(io.Writer) error) error {
	return files.FillIn(s.root, path.Join(temps, rand.Text()), name, 0o644, fill)
}
