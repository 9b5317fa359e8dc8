package base

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
)

func TestAWSConfigFromEnvironment(t *testing.T) {
	env := map[string]string{
		"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_SESSION_TOKEN": "session", "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
		"AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:2",
	}
	cfg, err := AWSConfig(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	keys, err := cfg.Credentials.Retrieve(context.Background())
	if err != nil || keys.AccessKeyID != "id" || keys.SecretAccessKey != "secret" || keys.SessionToken != "session" {
		t.Errorf("keys of %s, %v", keys.AccessKeyID, err)
	}
	t.Setenv("AWS_ENDPOINT_URL", env["AWS_ENDPOINT_URL"])
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", env["AWS_ENDPOINT_URL_DYNAMODB"])
	if e := dynamodb.NewFromConfig(cfg).Options().BaseEndpoint; e == nil || *e != "http://127.0.0.1:2" {
		t.Errorf("DynamoDB at %v", e)
	}
	if e := eventbridge.NewFromConfig(cfg).Options().BaseEndpoint; e == nil || *e != "http://127.0.0.1:1" {
		t.Errorf("EventBridge at %v", e)
	}

	delete(env, "AWS_REGION")
	if _, err := AWSConfig(func(name string) string { return env[name] }); !errors.Is(err, ErrEnv) {
		t.Errorf("without a region: %v", err)
	}
}
