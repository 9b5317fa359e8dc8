// Package mailbox carries the calls of agents to a broker without a public address. Both sides use a bucket that the
// user owns: the agent puts a call into the bucket as a letter, and the broker puts the answer next to it.
//
// The calls are the same as over HTTP, with the same tokens. Transport is the agent's side, an http.RoundTripper.
// Package desk is the broker's side, which passes letters to the handler that also serves HTTP.
//
// # Objects
//
//	in/MAILBOX/RANK/NUMBER   a call of the agent with this rank, a sealed Letter
//	out/MAILBOX/RANK/NUMBER  its answer, a sealed Reply
//	book/MAILBOX             the first URLs of each rank, a sealed Book
//
// A mailbox belongs to the machines of one launch. An agent has no other right on the bucket than its signed URLs: it
// can create the letters of its rank, each once, and read their answers. Each answer contains more URLs before the
// agent runs out of them, and new ones before they expire.
//
// # Delivery
//
// A letter is delivered at least once: the broker may answer it again after a crash, and the agent may put it again
// after a lost answer. Letters may also arrive late and in any order. The calls tolerate all this, because they are
// numbered and repeatable (package wire). An agent that repeats a call gets the answer to the letter that it has
// already put, so it needs no more numbers while the broker is away.
//
// # Secrets
//
// Letters, answers and books contain tokens, secrets of tasks and signed URLs. They are sealed with a key that only the
// broker and the machines of the mailbox have, bound to their names. A reader of the bucket learns nothing, and a
// writer can neither forge a letter nor move one.
package mailbox

import (
	"bytes"
	"compress/gzip"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// MaxLetter is the maximum size of a sealed letter or answer, in bytes. The largest calls are pages of grants.
const MaxLetter = 16 << 20

// maxContent is the maximum size of a letter after decompression, in bytes.
const maxContent = 64 << 20

// Errors of this package, wrapped with detail.
var (
	// ErrSealed means that an object was not sealed with this key for this name.
	ErrSealed = errors.New("mailbox: not sealed with the key of this mailbox")
	// ErrAddress means that an address cannot be parsed.
	ErrAddress = errors.New("mailbox: bad address")
	// ErrTooLarge means that a call or its answer is larger than MaxLetter.
	ErrTooLarge = errors.New("mailbox: too large for a letter")
)

// Slot has the URLs of one number: to put a letter, and to get its answer.
type Slot struct {
	Number int         `json:"number"`
	Put    grant.Grant `json:"put"`
	Get    grant.Grant `json:"get"`
}

// expires returns when the first of the slot's URLs expires.
func (s Slot) expires() time.Time {
	if s.Put.Expires.Before(s.Get.Expires) {
		return s.Put.Expires
	}
	return s.Get.Expires
}

// Book is the data with which the agents of a mailbox start.
type Book struct {
	// Endpoint is the base URL that calls name, as for a broker with an address. No server answers there.
	Endpoint string `json:"endpoint"`
	// Away is the time for which the broker may be away before the agents give up and end their machines.
	Away time.Duration `json:"away"`
	// Ranks are the first slots by rank.
	Ranks [][]Slot `json:"ranks"`
}

// Letter is a call of an agent.
type Letter struct {
	Number int `json:"number"`
	// ID distinguishes two agents that use the same number. The answer repeats it.
	ID     string            `json:"id"`
	Method string            `json:"method"`
	Target string            `json:"target"` // path and query
	Header map[string]string `json:"header,omitempty"`
	Body   []byte            `json:"body,omitempty"`
	// Below is the lowest number whose answer the agent still needs. The broker may remove answers with lower
	// numbers.
	Below int `json:"below,omitempty"`
	// Have is the highest number for which the agent has URLs. Until is the time at which the first of these URLs
	// expires.
	Have  int       `json:"have"`
	Until time.Time `json:"until"`
}

// Reply is the answer to a letter.
type Reply struct {
	Number int               `json:"number"`
	ID     string            `json:"id"`
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitempty"`
	Body   []byte            `json:"body,omitempty"`
	// More are further slots, and newer ones for numbers that the agent knows.
	More []Slot `json:"more,omitempty"`
}

// Letters is the folder of all letters.
const Letters = "in/"

// Names of the objects of a mailbox, below the folder of all mailboxes.
const (
	inFolder   = Letters
	outFolder  = "out/"
	bookFolder = "book/"
)

// InName returns the name of a letter.
func InName(mailbox string, rank, number int) string {
	return numbered(inFolder, mailbox, rank, number)
}

// OutName returns the name of an answer.
func OutName(mailbox string, rank, number int) string {
	return numbered(outFolder, mailbox, rank, number)
}

// BookName returns the name of a mailbox's book.
func BookName(mailbox string) string { return bookFolder + mailbox }

// numbered pads the number, so that a list is in order.
func numbered(folder, mailbox string, rank, number int) string {
	return fmt.Sprintf("%s%s/%d/%08d", folder, mailbox, rank, number)
}

// Place is the information in the name of an object.
type Place struct {
	Folder  string // in/, out/ or book/
	Mailbox string
	Rank    int
	Number  int
}

// ParseName parses the name of an object below the folder of all mailboxes. ok is false for other objects.
func ParseName(name string) (p Place, ok bool) {
	if mailbox, is := strings.CutPrefix(name, bookFolder); is {
		return Place{Folder: bookFolder, Mailbox: mailbox}, mailbox != "" && !strings.Contains(mailbox, "/")
	}
	for _, folder := range []string{inFolder, outFolder} {
		rest, is := strings.CutPrefix(name, folder)
		parts := strings.Split(rest, "/")
		if !is || len(parts) != 3 {
			continue
		}
		p = Place{Folder: folder, Mailbox: parts[0]}
		n, err := fmt.Sscanf(parts[1]+" "+parts[2], "%d %d", &p.Rank, &p.Number)
		return p, err == nil && n == 2 && numbered(folder, p.Mailbox, p.Rank, p.Number) == name
	}
	return Place{}, false
}

// IsLetter reports whether the object is a letter of an agent.
func (p Place) IsLetter() bool { return p.Folder == inFolder }

// IsReply reports whether the object is an answer.
func (p Place) IsReply() bool { return p.Folder == outFolder }

// Key seals the objects of one mailbox.
type Key [sha256.Size]byte

// KeyOf derives the key of a mailbox from the broker's own.
func KeyOf(master []byte, mailbox string) (k Key) {
	mac := hmac.New(sha256.New, master)
	mac.Write([]byte("mailbox/" + mailbox)) // never fails
	copy(k[:], mac.Sum(nil))
	return k
}

// Seal compresses and encrypts v for the object with this name (AES-256-GCM).
func (k Key) Seal(name string, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	_, _ = z.Write(body) // a buffer never fails
	if err := z.Close(); err != nil {
		return nil, err
	}
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+small.Len()+aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	sealed := aead.Seal(nonce, nonce, small.Bytes(), []byte(name))
	if len(sealed) > MaxLetter {
		return nil, fmt.Errorf("%w: %d bytes, the maximum is %d", ErrTooLarge, len(sealed), MaxLetter)
	}
	return sealed, nil
}

// Open decrypts the object with this name into v. It returns ErrSealed if another key or name was used.
func (k Key) Open(name string, sealed []byte, v any) error {
	aead, err := k.aead()
	if err != nil {
		return err
	}
	if len(sealed) < aead.NonceSize() {
		return ErrSealed
	}
	nonce, text := sealed[:aead.NonceSize()], sealed[aead.NonceSize():]
	small, err := aead.Open(nil, nonce, text, []byte(name))
	if err != nil {
		return fmt.Errorf("%w: %s", ErrSealed, name)
	}
	z, err := gzip.NewReader(bytes.NewReader(small))
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(z, maxContent))
	if err != nil {
		return err
	}
	return json.Unmarshal(body, v)
}

func (k Key) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Address is the data with which a machine finds its mailbox. The machine gets only this and its token at boot.
type Address struct {
	Mailbox string // its name
	Book    string // URL of the book, which gives the right to read it
	Key     Key
}

// String returns the address as one line, which contains secrets.
func (a Address) String() string {
	return a.Mailbox + " " + base64.RawURLEncoding.EncodeToString(a.Key[:]) + " " + a.Book
}

// ParseAddress parses the line that String returns.
func ParseAddress(text string) (a Address, err error) {
	parts := strings.Fields(text)
	if len(parts) != 3 {
		return a, fmt.Errorf("%w: want 3 words, got %d", ErrAddress, len(parts))
	}
	key, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || len(key) != len(a.Key) {
		return a, fmt.Errorf("%w: the key is not valid", ErrAddress)
	}
	a = Address{Mailbox: parts[0], Book: parts[2]}
	copy(a.Key[:], key)
	return a, nil
}
