package emulator

import (
	"errors"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// Region is the region of Config and Env.
const Region = "us-east-1"

// The emulators accept any credentials (DynamoDB Local: only letters and digits).
const accessKey, secretKey = "testing", "testing"

// Config returns the configuration with which a client of any service uses endpoint.
func Config(endpoint string) aws.Config {
	return aws.Config{
		Region:       Region,
		BaseEndpoint: aws.String(endpoint),
		Credentials:  credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
	}
}

// Env returns environment variables, NAME=VALUE, that make a program with the SDK's default configuration use
// only endpoint.
func Env(endpoint string) []string {
	return []string{
		"AWS_ENDPOINT_URL=" + endpoint,
		"AWS_REGION=" + Region,
		"AWS_DEFAULT_REGION=" + Region,
		"AWS_ACCESS_KEY_ID=" + accessKey,
		"AWS_SECRET_ACCESS_KEY=" + secretKey,
		"AWS_EC2_METADATA_DISABLED=true",
		"AWS_CONFIG_FILE=" + os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull,
	}
}

func endpoint(tb testing.TB, s started) string {
	tb.Helper()
	var absent *NotInstalledError
	switch {
	case errors.As(s.err, &absent) && os.Getenv(Required) == "":
		tb.Skip(s.err)
	case s.err != nil:
		tb.Fatal(s.err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the log of %s is %s", s.process.Name, s.process.Log)
		}
	})
	return s.process.Endpoint
}
