package dynamo_test

import (
	"bytes"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// TestRestoredTableWorksUnderOldName follows docs/aws.md for damaged records: the table is restored to a point in
// time, inspected, and restored under its old name from a backup. It must have its records, versions and unpublished
// events, and work.
func TestRestoredTableWorksUnderOldName(t *testing.T) {
	ts := onMoto(t)
	ctx, name := t.Context(), ts.create(t)
	db := dynamodb.NewFromConfig(ts.cfg)
	do := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	_, err := db.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{
		TableName:                        &name,
		PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)},
	})
	do("switch on recovery", err)
	key := store.Key{Partition: "job#a", Sort: "job"}
	s := open(t, ts.cfg, name, dynamo.Options{})
	do("write", s.Commit(ctx, store.Tx{
		Writes: []store.Write{{Op: store.Put, Key: key, Body: []byte("sound")}},
		Events: []store.Event{{ID: "e1", Body: []byte("published later")}},
	}))

	restored := name + "-restored"
	_, err = db.RestoreTableToPointInTime(ctx, &dynamodb.RestoreTableToPointInTimeInput{
		SourceTableName: &name, TargetTableName: &restored, UseLatestRestorableTime: aws.Bool(true),
	})
	do("restore-table-to-point-in-time", err)
	do("damage", s.Commit(ctx, store.Tx{Writes: []store.Write{{Op: store.Put, Key: key, Expect: 1, Body: []byte("damaged")}}}))
	looked, err := open(t, ts.cfg, restored, dynamo.Options{}).Get(ctx, key)
	do("inspect", err)
	if len(looked) != 1 || !bytes.Equal(looked[0].Body, []byte("sound")) {
		t.Fatalf("the restored table has %+v", looked)
	}
	_, err = db.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name})
	do("delete-table", err)
	backup, err := db.CreateBackup(ctx, &dynamodb.CreateBackupInput{TableName: &restored, BackupName: aws.String("tradewind")})
	do("create-backup", err)
	_, err = db.RestoreTableFromBackup(ctx, &dynamodb.RestoreTableFromBackupInput{TargetTableName: &name, BackupArn: backup.BackupDetails.BackupArn})
	do("restore-table-from-backup", err)
	_, err = db.UpdateTable(ctx, &dynamodb.UpdateTableInput{
		TableName:           &name,
		StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: dynamo.StreamView},
	})
	do("update-table", err)
	_, err = db.UpdateTimeToLive(ctx, dynamo.TimeToLiveInput(name))
	do("update-time-to-live", err)

	s = open(t, ts.cfg, name, dynamo.Options{})
	got, err := s.Get(ctx, key)
	do("read", err)
	if len(got) != 1 || !bytes.Equal(got[0].Body, []byte("sound")) || got[0].Version != 1 {
		t.Fatalf("the table has %+v", got)
	}
	do("continue", s.Commit(ctx, store.Tx{Writes: []store.Write{{Op: store.Put, Key: key, Expect: 1, Body: []byte("continued")}}}))
	pending, err := s.Outbox(ctx, 10)
	do("read unpublished events", err)
	if len(pending) != 1 || pending[0].ID != "e1" {
		t.Errorf("events to publish: %+v", pending)
	}
	table, err := db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
	do("describe", err)
	if spec := table.Table.StreamSpecification; spec == nil || !aws.ToBool(spec.StreamEnabled) || spec.StreamViewType != dynamo.StreamView {
		t.Errorf("its stream is %+v", spec)
	}
}
