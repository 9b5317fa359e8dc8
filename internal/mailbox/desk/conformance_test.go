package desk_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/emulator/gcs"

	"github.com/tradewind-broker/tradewind/internal/grant/azgrant"
	"github.com/tradewind-broker/tradewind/internal/grant/gcsgrant"
	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/internal/mailbox"
	"github.com/tradewind-broker/tradewind/internal/mailbox/desk"
	"github.com/tradewind-broker/tradewind/internal/mailbox/mailboxtest"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

var key = []byte("a key of the broker, 32 bytes or more")

const endpoint = "https://broker.invalid"

// carrier returns a carrier that uses a folder of a bucket.
func carrier(t *testing.T, store grant.Store, client *http.Client, uri string, handler http.Handler) mailboxtest.Carrier {
	t.Helper()
	d := desk.New(desk.Config{Bucket: desk.Bucket{Store: store, Client: client, URI: uri}, Handler: handler, Key: key,
		Endpoint: endpoint, Busy: 100 * time.Millisecond, Open: func(context.Context) (map[string]bool, error) { return map[string]bool{"box": true}, nil }})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); d.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	address, err := d.OpenMailbox(ctx, "box", 2)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := mailbox.Connect(ctx, address, 1, mailbox.Options{Bucket: client})
	if err != nil {
		t.Fatal(err)
	}
	return mailboxtest.Carrier{Client: &http.Client{Transport: tr}, Endpoint: tr.Book().Endpoint}
}

func TestConformanceOverHTTP(t *testing.T) {
	mailboxtest.Run(t, func(t *testing.T, handler http.Handler) mailboxtest.Carrier {
		s := httptest.NewServer(handler)
		t.Cleanup(s.Close)
		return mailboxtest.Carrier{Client: s.Client(), Endpoint: s.URL}
	})
}

func TestConformanceOverMemory(t *testing.T) {
	b := mailboxtest.NewBucket()
	mailboxtest.Run(t, func(t *testing.T, handler http.Handler) mailboxtest.Carrier {
		return carrier(t, b, &http.Client{Transport: b}, "s3://bucket/mail", handler)
	})
}

func TestConformanceOverS3(t *testing.T) {
	client := s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(servers.S3(t)), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(servers.S3AccessKey, servers.S3SecretKey, ""),
	})
	conformance(t, s3grant.New(client, s3grant.Options{}), "s3://mail")
}

func TestConformanceOverGoogle(t *testing.T) {
	const account = "broker@project.iam.gserviceaccount.com"
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	gate, err := gcs.New(servers.FakeGCS(t), account, rsaKey)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gate)
	t.Cleanup(server.Close)
	store, err := gcsgrant.New(gcsgrant.Options{Account: account, Sign: gcsgrant.ByIAM(http.DefaultClient, server.URL, account),
		Endpoint: server.URL, Project: "project"})
	if err != nil {
		t.Fatal(err)
	}
	conformance(t, store, "gs://mail")
}

func TestConformanceOverAzure(t *testing.T) {
	shared, err := service.NewSharedKeyCredential(servers.AzureAccount, servers.AzureKey)
	if err != nil {
		t.Fatal(err)
	}
	store, err := azgrant.New(servers.Azurite(t)+"/"+servers.AzureAccount, azgrant.SharedKey(shared), azgrant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	conformance(t, store, "azblob://mail")
}

// conformance makes a bucket in a store and runs the suite with it.
func conformance(t *testing.T, store grant.Store, bucket string) {
	if err := grant.MakeBucket(t.Context(), store, bucket); err != nil {
		t.Fatal(err)
	}
	mailboxtest.Run(t, func(t *testing.T, handler http.Handler) mailboxtest.Carrier {
		return carrier(t, store, nil, bucket+"/tradewind/mail", handler)
	})
}
