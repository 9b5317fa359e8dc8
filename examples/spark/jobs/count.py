"""Counts the words of a text: count.py TEXT RESULT. Words in the order of the alphabet, in one file."""

import sys

from pyspark.sql import SparkSession, functions as f

text, result = sys.argv[1:]
spark = SparkSession.builder.appName("count").getOrCreate()
words = spark.read.text(text).select(f.explode(f.split("value", r"\s+")).alias("word")).where("word != ''")
words.groupBy("word").count().orderBy("word").coalesce(1).write.csv(result, header=True)
