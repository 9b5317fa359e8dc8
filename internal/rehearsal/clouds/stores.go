package clouds

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/emulator/blob"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/internal/emulator/gcs"
	"github.com/tradewind-broker/tradewind/internal/grant/azgrant"
	"github.com/tradewind-broker/tradewind/internal/grant/gcsgrant"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// stores are the stores of Google and Azure: their emulators, behind handlers that check signatures.
type stores struct {
	google, azure http.Handler
	owners        grant.Mux
	delegation    string
	buckets       string // Google's, without the signature check
	dir           string
	processes     []*emulator.Process
	door          *httptest.Server // Google's, without counting
}

// openStores starts them, with a bucket and a container.
func openStores(ctx context.Context, cloud *gce.Cloud) (_ *stores, err error) {
	s := &stores{owners: grant.Mux{}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "rehearsal-blob-"); err != nil {
		return nil, err
	}
	if err := s.openGoogle(ctx, cloud); err != nil {
		return nil, err
	}
	return s, s.openAzure(ctx)
}

func (s *stores) start(server emulator.Server) (endpoint string, err error) {
	p, err := emulator.Start(server)
	if err != nil {
		return "", err
	}
	s.processes = append(s.processes, p)
	return p.Endpoint, nil
}

func (s *stores) openGoogle(ctx context.Context, cloud *gce.Cloud) error {
	server := servers.FakeGCSServer()
	server.Env = append(server.Env, "PUBSUB_EMULATOR_HOST="+cloud.PubSub()) // for notifications of objects
	endpoint, err := s.start(server)
	if err != nil {
		return err
	}
	s.buckets = endpoint
	cloud.KeepBuckets(endpoint)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	gate, err := gcs.New(endpoint, brokerAccount, key)
	if err != nil {
		return err
	}
	s.google = gate
	s.door = httptest.NewServer(gate)
	s.owners["gs"], err = gcsgrant.New(gcsgrant.Options{
		Account: brokerAccount, Sign: gcsgrant.RSA(key), Endpoint: s.door.URL,
	})
	if err != nil {
		return err
	}
	return errors.Join(gate.MakeBucket(ctx, googleBucket), gate.MakeBucket(ctx, jobsBucket))
}

func (s *stores) openAzure(ctx context.Context) error {
	endpoint, err := s.start(servers.AzuriteServer(s.dir))
	if err != nil {
		return err
	}
	key, err := service.NewSharedKeyCredential(servers.AzureAccount, servers.AzureKey)
	if err != nil {
		return err
	}
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails
	s.delegation = base64.StdEncoding.EncodeToString(raw[:])
	if s.azure, err = blob.New(endpoint, key, s.delegation); err != nil {
		return err
	}
	endpoint += "/" + servers.AzureAccount
	if s.owners["azblob"], err = azgrant.New(endpoint, azgrant.SharedKey(key), azgrant.Options{}); err != nil {
		return err
	}
	client, err := service.NewClientWithSharedKeyCredential(endpoint, key, nil)
	if err != nil {
		return err
	}
	_, err = client.CreateContainer(ctx, azureContainer, nil)
	return err
}

func (s *stores) close() {
	if s.door != nil {
		s.door.Close()
	}
	for _, p := range s.processes {
		p.Stop()
	}
	_ = os.RemoveAll(s.dir)
}

// counting counts requests once moves is set.
func counting(moves *atomic.Pointer[account.Moves], place string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m := moves.Load(); m != nil {
			m.Through(place, next).ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
