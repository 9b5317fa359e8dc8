package account

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tradewind-broker/tradewind/internal/deploy"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

const kept = `{"Resources":{"Table":{"Type":"AWS::DynamoDB::Table","Properties":{"TableName":"%s","BillingMode":"PAY_PER_REQUEST",
 "AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"S"}],
 "KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],
 "StreamSpecification":{"StreamViewType":"NEW_IMAGE"},"TimeToLiveSpecification":{"AttributeName":"ttl","Enabled":true},
 "PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true}}}}}`

func TestTableFollowsTemplateAndStreamIsRead(t *testing.T) {
	moto, local := emulator.Moto(t), emulator.DynamoDBLocal(t)
	all, err := front(moto, local, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(all)
	defer server.Close()
	cfg := emulator.Config(server.URL)
	name := fmt.Sprint("kept", time.Now().UnixNano())
	path := filepath.Join(t.TempDir(), "template.json")
	if err := os.WriteFile(path, fmt.Appendf(nil, kept, name), 0o600); err != nil {
		t.Fatal(err)
	}
	tpl, err := readTemplate(deploy.Stack{Name: "tw", Template: deploy.Asset{Path: path}})
	if err != nil {
		t.Fatal(err)
	}
	client := dynamodb.NewFromConfig(cfg)
	stream, err := tpl.tables(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	made, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
	if err != nil {
		t.Fatal(err)
	}
	if made.Table.StreamSpecification.StreamViewType != types.StreamViewTypeNewImage ||
		aws.ToString(made.Table.LatestStreamArn) != stream || len(made.Table.KeySchema) != 2 {
		t.Errorf("%+v", made.Table)
	}
	ttl, err := client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil || aws.ToString(ttl.TimeToLiveDescription.AttributeName) != "ttl" {
		t.Errorf("%+v, %v", ttl, err)
	}
	if _, err := client.ListTables(t.Context(), &dynamodb.ListTablesInput{}); err != nil {
		t.Error(err)
	}
	// Requests for other services go to moto.
	if _, err := sqs.NewFromConfig(cfg).CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name}); err != nil {
		t.Error(err)
	}

	feed := &streamFeed{mapping: &Mapping{Source: stream}, cfg: cfg, log: slog.New(slog.DiscardHandler)}
	put := func(pk string) {
		t.Helper()
		_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name,
			Item: map[string]types.AttributeValue{
				"pk": &types.AttributeValueMemberS{Value: pk}, "sk": &types.AttributeValueMemberS{Value: "s"},
			}})
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func() (keys []string) {
		t.Helper()
		records, err := feed.read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			pk := r["dynamodb"].(map[string]any)["Keys"].(map[string]any)["pk"].(map[string]any)["S"]
			keys = append(keys, fmt.Sprint(r["eventName"], " ", pk))
		}
		return keys
	}
	// Each record must be delivered once, even if the iterator was lost in between.
	for _, pk := range []string{"a", "b", "c"} {
		put(pk)
		if got := fmt.Sprint(read()); got != "[INSERT "+pk+"]" {
			t.Errorf("the stream has %s", got)
		}
		if pk == "b" {
			feed.iterator = ""
		}
	}
	if got := read(); len(got) != 0 {
		t.Errorf("read again: %v", got)
	}
}

func TestShardOrder(t *testing.T) {
	all := []shard{{"c", "b"}, {"b", "a"}, {"a", "gone"}}
	for after, want := range map[string]string{"": "a", "a": "b", "b": "c", "c": ""} {
		if got := following(all, after); got != want {
			t.Errorf("after %q comes %q, want %q", after, got, want)
		}
	}
}
