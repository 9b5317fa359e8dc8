package mailbox_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/mailbox"
)

func TestNamesCanBeParsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		box := rapid.StringMatching(`[a-z0-9.#-]{1,30}`).Draw(t, "mailbox")
		rank, number := rapid.IntRange(0, 10_000).Draw(t, "rank"), rapid.IntRange(1, 1<<30).Draw(t, "number")
		in, ok := mailbox.ParseName(mailbox.InName(box, rank, number))
		if !ok || !in.IsLetter() || in.Mailbox != box || in.Rank != rank || in.Number != number {
			t.Fatalf("letter: %+v, %v", in, ok)
		}
		out, ok := mailbox.ParseName(mailbox.OutName(box, rank, number))
		if !ok || !out.IsReply() || out.Mailbox != box || out.Rank != rank || out.Number != number {
			t.Fatalf("answer: %+v, %v", out, ok)
		}
		if book, ok := mailbox.ParseName(mailbox.BookName(box)); !ok || book.Mailbox != box {
			t.Fatalf("book: %+v, %v", book, ok)
		}
	})
	for _, name := range []string{"", "in/", "in/box", "in/box/0", "in/box/0/1", "in/box/0/00000001/x", "in/box/x/00000001",
		"other/box/0/00000001", "book/", "book/a/b", "in/box/+1/00000001", "in/box/00/00000001"} {
		if p, ok := mailbox.ParseName(name); ok {
			t.Errorf("%q was parsed as %+v", name, p)
		}
	}
}

func TestAddressRoundTrip(t *testing.T) {
	a := mailbox.Address{Mailbox: "job-1.0.1", Book: "https://bucket.example/book?X-Amz-Signature=1%2F2", Key: mailbox.KeyOf([]byte("k"), "b")}
	if got, err := mailbox.ParseAddress(a.String() + "\n"); err != nil || got != a {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "a b", "a b c d", "box key https://x", "box " + strings.Repeat("A", 42) + " https://x"} {
		if _, err := mailbox.ParseAddress(bad); !errors.Is(err, mailbox.ErrAddress) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestSealBindsKeyAndName(t *testing.T) {
	key := mailbox.KeyOf([]byte("master"), "box")
	sealed, err := key.Seal("in/box/0/00000001", "a secret text")
	if err != nil || bytes.Contains(sealed, []byte("secret")) {
		t.Fatalf("%q, %v", sealed, err)
	}
	var got string
	if err := key.Open("in/box/0/00000001", sealed, &got); err != nil || got != "a secret text" {
		t.Errorf("%q, %v", got, err)
	}
	for what, open := range map[string]func() error{
		"another name":   func() error { return key.Open("in/box/0/00000002", sealed, &got) },
		"another box":    func() error { return mailbox.KeyOf([]byte("master"), "box2").Open("in/box/0/00000001", sealed, &got) },
		"another broker": func() error { return mailbox.KeyOf([]byte("other"), "box").Open("in/box/0/00000001", sealed, &got) },
		"a changed byte": func() error {
			changed := bytes.Clone(sealed)
			changed[len(changed)-1] ^= 1
			return key.Open("in/box/0/00000001", changed, &got)
		},
		"nothing": func() error { return key.Open("in/box/0/00000001", nil, &got) },
	} {
		if err := open(); !errors.Is(err, mailbox.ErrSealed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := key.Seal("x", make([]byte, 64<<20)); err != nil && !errors.Is(err, mailbox.ErrTooLarge) {
		t.Error(err)
	}
}
