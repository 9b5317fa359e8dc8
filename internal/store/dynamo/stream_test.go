package dynamo_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	lambdaevents "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// images returns all items of a table in the form that its stream has.
func images(t *testing.T, ts *tables, table string) []map[string]types.AttributeValue {
	t.Helper()
	out, err := dynamodb.NewFromConfig(ts.cfg).Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(table), ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	return out.Items
}

// dynamoRecord returns an item as Lambda delivers it, through JSON.
func dynamoRecord(t *testing.T, name string, image map[string]types.AttributeValue) lambdaevents.DynamoDBEventRecord {
	t.Helper()
	attributes := map[string]map[string]string{}
	for k, v := range image {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			attributes[k] = map[string]string{"S": v.Value}
		case *types.AttributeValueMemberN:
			attributes[k] = map[string]string{"N": v.Value}
		case *types.AttributeValueMemberB:
			attributes[k] = map[string]string{"B": base64.StdEncoding.EncodeToString(v.Value)}
		}
	}
	text, err := json.Marshal(map[string]any{"eventName": name, "eventSource": "aws:dynamodb", "dynamodb": map[string]any{"NewImage": attributes}})
	if err != nil {
		t.Fatal(err)
	}
	var r lambdaevents.DynamoDBEventRecord
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStreamFeedsRelay(t *testing.T) {
	ts := onLocal(t)
	table := ts.create(t)
	m := &dynamo.Meter{}
	s := open(t, ts.cfg, table, dynamo.Options{Meter: m})
	const transactions = 30
	want := map[string]string{}
	for i := range transactions {
		tx := store.Tx{Writes: []store.Write{put(key(fmt.Sprint("job#", i%3), fmt.Sprint(i)), store.Absent, "x")}}
		for j := range 3 {
			e := store.Event{ID: fmt.Sprintf("%d/%d", i, j), Body: []byte(strings.Repeat(fmt.Sprint(i), 500*j))}
			want[e.ID] = string(e.Body)
			tx.Events = append(tx.Events, e)
		}
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	var pending []dynamo.Pending
	for _, image := range images(t, ts, table) {
		for _, name := range []string{"MODIFY", "REMOVE"} {
			if _, ok, err := dynamo.FromRecord(dynamoRecord(t, name, image)); ok || err != nil {
				t.Errorf("a record of %s holds new events: %v, %v", name, ok, err)
			}
		}
		p, ok, err := dynamo.FromRecord(dynamoRecord(t, "INSERT", image))
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			pending = append(pending, p)
		}
	}
	if len(pending) != transactions {
		t.Fatalf("%d items of events, want one for each of %d transactions", len(pending), transactions)
	}
	feed := s.Feed(pending...)
	before := m.Usage().Total.Requests
	events, err := feed.Outbox(t.Context(), 1000)
	if err != nil || len(events) != len(want) {
		t.Fatalf("the feed holds %d events, %v, want %d", len(events), err, len(want))
	}
	var ids []string
	for _, e := range events {
		if want[e.ID] != string(e.Body) {
			t.Errorf("event %s has another body", e.ID)
		}
		ids = append(ids, e.ID)
	}
	if err := feed.Published(t.Context(), ids[1:]...); err != nil {
		t.Fatal(err)
	}
	if left, err := feed.Outbox(t.Context(), 10); err != nil || len(left) != 1 || left[0].ID != ids[0] {
		t.Errorf("the feed still holds %v, %v, want %s", left, err, ids[0])
	}
	if n := m.Usage().Total.Requests - before; n != 3 { // two batches of at most 25, and a mark
		t.Errorf("%d requests to remove %d transactions, want 3", n, transactions)
	}
	if left, err := s.Outbox(t.Context(), 10); err != nil || len(left) != 1 || left[0].ID != ids[0] {
		t.Errorf("the table still holds %v, %v, want %s", left, err, ids[0])
	}
	if err := feed.Published(t.Context(), ids...); err != nil {
		t.Fatal(err)
	}
	if left, err := s.Outbox(t.Context(), 10); err != nil || len(left) != 0 {
		t.Errorf("the table still holds %v, %v", left, err)
	}
}

// TestOneItemIsPublishedInPieces: two independent processes publish the events of one item.
func TestOneItemIsPublishedInPieces(t *testing.T) {
	ts := onLocal(t)
	table := ts.create(t)
	a, b := open(t, ts.cfg, table, dynamo.Options{}), open(t, ts.cfg, table, dynamo.Options{})
	var tx store.Tx
	for _, id := range []string{"1", "2", "3", "4"} {
		tx.Events = append(tx.Events, store.Event{ID: id})
	}
	if err := a.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*dynamo.Store{a, b} {
		if _, err := s.Outbox(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		s    *dynamo.Store
		ids  []string
		left []string
	}{
		{a, []string{"2"}, []string{"1", "3", "4"}},
		{b, []string{"4", "1"}, []string{"3"}},
		{a, []string{"2", "3"}, nil},
	} {
		if err := step.s.Published(t.Context(), step.ids...); err != nil {
			t.Fatal(err)
		}
		events, err := b.Outbox(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, e := range events {
			left = append(left, e.ID)
		}
		if !slices.Equal(left, step.left) {
			t.Errorf("after %v the outbox holds %v, want %v", step.ids, left, step.left)
		}
	}
	if items := images(t, ts, table); len(items) != 0 {
		t.Errorf("%d items remain in the table", len(items))
	}
}

func TestUnreadableOutboxItemsAreSkipped(t *testing.T) {
	ts := onLocal(t)
	table := ts.create(t)
	s := open(t, ts.cfg, table, dynamo.Options{})
	for _, body := range []types.AttributeValue{nil, &types.AttributeValueMemberB{Value: []byte{9, 1}}, &types.AttributeValueMemberB{Value: []byte{0, 200}}} {
		item := map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: dynamo.OutboxPrefix + "0"}, "sk": &types.AttributeValueMemberS{Value: fmt.Sprintf("%p", body)}}
		if body != nil {
			item["b"] = body
		}
		if _, _, err := dynamo.FromImage(item); err == nil {
			t.Errorf("%v was read without error", body)
		}
		if _, err := dynamodb.NewFromConfig(ts.cfg).PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: item}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Commit(t.Context(), both); err != nil {
		t.Fatal(err)
	}
	if events, err := s.Outbox(t.Context(), 10); err != nil || len(events) != 1 {
		t.Errorf("Outbox = %v, %v, want the one that can be read", events, err)
	}
}
