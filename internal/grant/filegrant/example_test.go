package filegrant_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/grant/filegrant"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// An attempt may write its own objects and no others.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()

	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	store, err := filegrant.New(dir, filegrant.Options{BaseURL: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	mux.Handle("/", store)

	// The broker signs requests that are within the scope of the attempt.
	scope := grant.Scope{Write: []string{"file://" + dir + "/job-7/3/"}}
	signer := scope.Over(grant.Mux{"file": store})
	want := grant.Want{Op: grant.Put, URI: "file://" + dir + "/job-7/3/log.txt", For: time.Hour, Size: 5}
	grants, err := signer.Sign(ctx, want)
	if err != nil {
		fmt.Println(err)
		return
	}

	// The machine sends the signed request with any HTTP client.
	req, err := grants[0].Request(ctx, strings.NewReader("hello"), 5)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(grant.Redact(err))
		return
	}
	_ = resp.Body.Close()
	fmt.Println(resp.Status)

	want.URI = "file://" + dir + "/job-7/4/log.txt"
	_, err = signer.Sign(ctx, want)
	fmt.Println(strings.ReplaceAll(err.Error(), dir, "DIR"))
	// Output:
	// 200 OK
	// grant: outside of the scope: file://DIR/job-7/4/log.txt
}
