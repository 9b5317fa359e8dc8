package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/grant/azgrant"
	"github.com/tradewind-broker/tradewind/internal/grant/gcsgrant"
	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// place is a store on this machine with one bucket, and how each program accesses it.
type place struct {
	uri    string   // of the bucket
	remote string   // of the bucket, as rclone names it
	env    []string // for rclone and s5cmd
	s3     string   // endpoint, of a store that s5cmd can reach
	files  string   // folder in which the server stores the bucket's objects; "" if they are not in files
	// whole is set if the server does not support multipart uploads
	whole bool
	store grant.Store
	stop  func()
}

// below is the folder in which the objects of a prefix are stored; "" if they are not stored as files.
func (p *place) below(prefix string) string {
	if p.files == "" {
		return ""
	}
	return filepath.Join(p.files, filepath.FromSlash(prefix))
}

// bucketName is the same in every place.
const bucketName = "bench"

// openS3 starts a MinIO; name distinguishes two of them.
func openS3(ctx context.Context, dir, name string) (*place, error) {
	dir = filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	p, err := emulator.Start(servers.S3Server(dir))
	if err != nil {
		return nil, err
	}
	if err := servers.AwaitS3(ctx, p.Endpoint); err != nil {
		p.Stop()
		return nil, err
	}
	client := s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(p.Endpoint), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(servers.S3AccessKey, servers.S3SecretKey, ""),
	})
	if _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(bucketName)}); err != nil {
		p.Stop()
		return nil, err
	}
	env := remote(name, map[string]string{
		"type": "s3", "provider": "Other", "endpoint": p.Endpoint, "region": "us-east-1",
		"access_key_id": servers.S3AccessKey, "secret_access_key": servers.S3SecretKey, "force_path_style": "true",
	})
	env = append(env, "AWS_ACCESS_KEY_ID="+servers.S3AccessKey, "AWS_SECRET_ACCESS_KEY="+servers.S3SecretKey,
		"AWS_REGION=us-east-1")
	return &place{
		uri: "s3://" + bucketName, remote: name + ":" + bucketName, env: env, s3: p.Endpoint,
		files: filepath.Join(dir, "data", bucketName), store: s3grant.New(client, s3grant.Options{}), stop: p.Stop,
	}, nil
}

// openGCS starts a fake-gcs-server, which keeps objects in memory and does not support multipart uploads.
func openGCS(ctx context.Context) (*place, error) {
	p, err := emulator.Start(servers.FakeGCSServer())
	if err != nil {
		return nil, err
	}
	s, err := makeGCS(ctx, p.Endpoint)
	if err != nil {
		p.Stop()
		return nil, err
	}
	env := remote("gcs", map[string]string{
		"type": "google cloud storage", "anonymous": "true", "endpoint": p.Endpoint + "/storage/v1/",
	})
	return &place{
		uri: "gs://" + bucketName, remote: "gcs:" + bucketName, env: env, whole: true, store: s, stop: p.Stop,
	}, nil
}

func makeGCS(ctx context.Context, endpoint string) (grant.Store, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"/storage/v1/b",
		strings.NewReader(`{"name":"`+bucketName+`"}`))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	_ = resp.Body.Close() // only its status matters
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("make a bucket: %s", resp.Status)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	return gcsgrant.New(gcsgrant.Options{Account: "bench@example.com", Sign: gcsgrant.RSA(key), Endpoint: endpoint})
}

// openAzure starts an Azurite. Stopping it removes its folder.
func openAzure(ctx context.Context, dir string) (*place, error) {
	p, err := emulator.Start(servers.AzuriteServer(dir))
	if err != nil {
		return nil, err
	}
	endpoint := p.Endpoint + "/" + servers.AzureAccount
	key, err := service.NewSharedKeyCredential(servers.AzureAccount, servers.AzureKey)
	var client *service.Client
	if err == nil {
		client, err = service.NewClientWithSharedKeyCredential(endpoint, key, nil)
	}
	if err == nil {
		_, err = client.CreateContainer(ctx, bucketName, nil)
	}
	var store *azgrant.Store
	if err == nil {
		store, err = azgrant.New(endpoint, azgrant.SharedKey(key), azgrant.Options{})
	}
	if err != nil {
		p.Stop()
		return nil, err
	}
	env := remote("az", map[string]string{
		"type": "azureblob", "account": servers.AzureAccount, "key": servers.AzureKey, "endpoint": endpoint,
	})
	return &place{
		uri: "azblob://" + bucketName, remote: "az:" + bucketName, env: env, store: store,
		stop: func() {
			p.Stop()
			_ = os.RemoveAll(dir) // inside the benchmark's folder, which is removed anyway
		},
	}, nil
}

// remote configures rclone by its environment.
func remote(name string, settings map[string]string) (env []string) {
	for k, v := range settings {
		env = append(env, "RCLONE_CONFIG_"+strings.ToUpper(name+"_"+k)+"="+v)
	}
	return env
}

// absent reports whether an error means that a server is not installed.
func absent(err error) bool {
	var lack *emulator.NotInstalledError
	return errors.As(err, &lack)
}

// empty removes all objects below a prefix of the place.
func (p *place) empty(ctx context.Context, prefix string) error {
	for {
		page, err := p.store.List(ctx, p.uri+"/"+prefix+"/", "")
		if err != nil || len(page.Objects) == 0 {
			return err
		}
		for _, o := range page.Objects {
			if err := p.store.Remove(ctx, o.URI); err != nil {
				return err
			}
		}
	}
}
