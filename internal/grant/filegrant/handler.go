package filegrant

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // for Content-MD5, not for security
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// ServeHTTP serves granted requests. It answers 403 to all others, 400 if the body is not the granted one, and 507 if
// the disk is full. No answer reveals the expected signature.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o, q, ok := s.granted(r)
	if !ok {
		http.Error(w, "not granted, or expired", http.StatusForbidden)
		return
	}
	name, err := s.name(o)
	if err != nil {
		http.Error(w, "not granted", http.StatusForbidden)
		return
	}
	if r.Method == http.MethodGet {
		s.get(w, r, name)
		return
	}
	want, err := strconv.ParseInt(q.Get(qSize), 10, 64)
	fits := r.ContentLength == want || q.Has(qNew) && r.ContentLength > 0 && r.ContentLength < want
	if err != nil || !fits {
		http.Error(w, "not the granted length", http.StatusForbidden)
		return
	}
	if q.Has(qNew) {
		s.putNew(w, r, q, name)
		return
	}
	if q.Has(qUpload) {
		s.putPart(w, r, q, name)
		return
	}
	s.answer(w, s.write(name, body(r, q)))
}

// granted checks the signature over method, path and query, the expiry and the range.
func (s *Store) granted(r *http.Request) (grant.Object, url.Values, bool) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return grant.Object{}, nil, false
	}
	base, _ := url.Parse(s.opts.BaseURL) // New has checked it
	key, mounted := strings.CutPrefix(r.URL.Path, base.Path+"/")
	want := s.signature(r.Method, key, q)
	if !mounted || !hmac.Equal([]byte(want), []byte(q.Get(qSig))) {
		return grant.Object{}, nil, false
	}
	expires, err := strconv.ParseInt(q.Get(qExpires), 10, 64)
	if err != nil || s.opts.Now().Unix() >= expires {
		return grant.Object{}, nil, false
	}
	if q.Has(qRange) && r.Header.Get("Range") != q.Get(qRange) {
		return grant.Object{}, nil, false
	}
	return grant.Object{Scheme: "file", Key: key}, q, true
}

func (s *Store) get(w http.ResponseWriter, r *http.Request, name string) {
	f, err := s.root.Open(name)
	if err != nil {
		http.Error(w, "no such object", http.StatusNotFound)
		return
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		http.Error(w, "no such object", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream") // so that browsers do not guess it
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("ETag", fmt.Sprintf(`"%x-%x"`, info.ModTime().UnixNano(), info.Size()))
	http.ServeContent(w, r, "", info.ModTime(), f)
}

// putNew stores an object, unless it exists.
func (s *Store) putNew(w http.ResponseWriter, r *http.Request, q url.Values, name string) {
	s.creating.Lock()
	defer s.creating.Unlock()
	if _, err := s.root.Lstat(name); err == nil {
		http.Error(w, "the object exists", http.StatusPreconditionFailed)
		return
	}
	s.answer(w, s.write(name, body(r, q)))
}

// putPart stores a part under its number and a random name, which is its ETag.
func (s *Store) putPart(w http.ResponseWriter, r *http.Request, q url.Values, name string) {
	dir, err := s.find(name, q.Get(qUpload))
	if err != nil {
		http.Error(w, "no such upload", http.StatusNotFound)
		return
	}
	number, err := strconv.Atoi(q.Get(qPart))
	if err != nil {
		http.Error(w, "no such part", http.StatusForbidden)
		return
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	etag := hex.EncodeToString(random[:])
	err = s.write(path.Join(dir, partFile(number, etag)), body(r, q))
	if _, ended := s.find(name, q.Get(qUpload)); ended != nil { // while the body was sent
		err = errors.Join(ended, s.root.RemoveAll(dir)) // which the part has created again
	}
	if err == nil {
		w.Header().Set("ETag", `"`+etag+`"`)
	}
	s.answer(w, err)
}

var errBody = errors.New("the body is incomplete, or its length or checksum differs from the granted one")

// body copies a request's body and compares its checksum. net/http enforces the length of the body.
func body(r *http.Request, q url.Values) func(io.Writer) error {
	return func(w io.Writer) error {
		sum, want := checksum(q)
		kept := &keeper{to: w}
		n, err := io.Copy(io.MultiWriter(kept, sum), r.Body)
		if kept.err != nil { // caused by the disk, not by the body
			return kept.err
		}
		if err != nil || n != r.ContentLength || want != nil && !bytes.Equal(sum.Sum(nil), want) {
			return errBody
		}
		return nil
	}
}

// keeper records the error of its writer.
type keeper struct {
	to  io.Writer
	err error
}

// Write implements io.Writer.
func (k *keeper) Write(p []byte) (n int, err error) {
	n, k.err = k.to.Write(p)
	return n, k.err
}

// checksum returns the granted checksum's algorithm and value; the value is nil if there is none.
func checksum(q url.Values) (hash.Hash, []byte) {
	for kind, hasher := range map[grant.SumKind]func() hash.Hash{
		grant.MD5: md5.New, grant.SHA256: sha256.New,
		grant.CRC32C: func() hash.Hash { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) },
	} {
		if q.Has(string(kind)) {
			want, _ := base64.RawURLEncoding.DecodeString(q.Get(string(kind))) // we signed it, so it is valid
			return hasher(), want
		}
	}
	return crc32.NewIEEE(), nil // not used
}

func (s *Store) answer(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
		w.WriteHeader(http.StatusOK)
	case errors.Is(err, errBody):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, grant.ErrUpload):
		http.Error(w, "no such upload", http.StatusNotFound)
	case errors.Is(err, syscall.ENOSPC):
		http.Error(w, "no space is left on the store's disk", http.StatusInsufficientStorage)
	default: // a file where a folder should be
		http.Error(w, "the store cannot write this", http.StatusInternalServerError)
	}
}
