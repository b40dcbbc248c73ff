/* The benchmark jobs for Apache Spark: what `./bench` compares Firesteel with.
 *
 * Every timed job prints `BENCH name seconds s`; what it computed follows as `RESULT name value`, so that the two
 * sides can be held against each other: a fast wrong answer is no answer. firesteel-bench-app prints the same lines.
 */
package lab

import java.util.HexFormat

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.scheduler.{SparkListener, SparkListenerExecutorAdded, SparkListenerExecutorRemoved, SparkListenerTaskEnd}

/** Start, count 1,000 numbers in two tasks, stop. */
object Trivial {
  def main(args: Array[String]): Unit = {
    val sc = new SparkContext(new SparkConf().setAppName("trivial"))
    println("RESULT trivial " + sc.parallelize(1 to 1000, 2).count())
    sc.stop()
  }
}

/** The same job over and over cached data until its input ends; tells of executors and tasks that come and go.
 *  `survive TASKS MILLISECONDS`
 */
object Survive {
  def main(args: Array[String]): Unit = {
    val (tasks, millis) = (args(1).toInt, args(2).toLong)
    val sc = new SparkContext(new SparkConf().setAppName("survive"))
    sc.addSparkListener(new SparkListener {
      override def onExecutorAdded(e: SparkListenerExecutorAdded): Unit = say("EXECUTOR added " + e.executorId)
      override def onExecutorRemoved(e: SparkListenerExecutorRemoved): Unit = say("EXECUTOR removed " + e.executorId)
      override def onTaskEnd(e: SparkListenerTaskEnd): Unit = if (e.reason.toString == "Success") say("TASK")
    })
    @volatile var over = false
    val input = new Thread(() => { while (System.in.read() >= 0) {}; over = true })
    input.setDaemon(true)
    input.start()
    val computed = sc.longAccumulator
    val cached = sc.range(0L, tasks.toLong, 1, tasks).map { i => computed.add(1); i }.cache()
    var sum = 0L
    do {
      sum = cached
        .map { i => Thread.sleep(millis); (i % 7, i) }
        .reduceByKey(_ + _, 2)
        .values
        .reduce(_ + _)
      say("CACHED " + computed.value)
      say("ROUND " + sum)
    } while (!over)
    sc.stop()
  }

  private def say(line: String): Unit = Console.out.synchronized { println(line); Console.out.flush() }
}

/** Two tasks at a time that tell who runs them, until nobody listens at the address any more. `knock ADDRESS` */
object Knock {
  def main(args: Array[String]): Unit = {
    val Array(host, port) = args(1).split(":")
    val sc = new SparkContext(new SparkConf().setAppName("knock"))
    while (sc.parallelize(0 until 2, 2).map(_ => tell(host, port.toInt)).sum() >= 2) {}
    sc.stop()
  }

  private def tell(host: String, port: Int): Int = {
    val told = try {
      val socket = new java.net.Socket(host, port)
      try socket.getOutputStream.write(sys.env.getOrElse("HOSTNAME", "").getBytes("UTF-8")) finally socket.close()
      1
    } catch { case _: java.io.IOException => 0 }
    Thread.sleep(20)
    told
  }
}

/** `tasks` | `pagerank FILE` | `longs PARTITIONS` | `wordcount PATH` | `sort RECORDS PARTITIONS` | `join ROWS PARTITIONS` |
 *  `group PAIRS PARTITIONS` | `distinct STRINGS PARTITIONS`
 */
object Bench {
  def main(args: Array[String]): Unit = {
    val sc = new SparkContext(new SparkConf().setAppName("bench-" + args(0)))
    // In a cluster of executors with one core each: what is timed starts when all are there.
    val wanted = sc.getConf.getInt("spark.cores.max", 0)
    while (sc.getExecutorMemoryStatus.size - 1 < wanted) Thread.sleep(5)
    args(0) match {
      case "tasks"     => tasks(sc)
      case "pagerank"  => pagerank(sc, args(1))
      case "longs"     => longs(sc, args(1).toInt)
      case "wordcount" => wordcount(sc, args(1))
      case "sort"      => sort(sc, args(1).toInt, args(2).toInt)
      case "join"      => join(sc, args(1).toLong, args(2).toInt)
      case "group"     => group(sc, args(1).toLong, args(2).toInt)
      case "distinct"  => distinct(sc, args(1).toLong, args(2).toInt)
    }
    sc.stop()
  }

  private def time[T](name: String)(job: => T): T = {
    val start = System.nanoTime()
    val result = job
    println(f"BENCH $name ${(System.nanoTime() - start) / 1e9}%.6f s")
    result
  }

  /** 10,000 empty tasks in one job. run1 is the cold one. */
  private def tasks(sc: SparkContext): Unit =
    for (i <- 1 to 4) {
      val count = time(s"tasks10000 run$i") { sc.parallelize(1 to 10000, 10000).count() }
      println(s"RESULT tasks10000 $count")
    }

  /** Ten rounds over a file of `source target` lines; the timing includes reading it. */
  private def pagerank(sc: SparkContext, edges: String): Unit = {
    val top = time("pagerank10") {
      val links = sc
        .textFile(edges, 4)
        .map { line => val ends = line.split(' '); (ends(0).toInt, ends(1).toInt) }
        .distinct(4)
        .groupByKey(4)
        .cache()
      var ranks = links.mapValues(_ => 1.0)
      for (_ <- 1 to 10) {
        val contributions = links.join(ranks, 4).values.flatMap { case (targets, rank) =>
          val n = targets.size
          targets.map(target => (target, rank / n))
        }
        ranks = contributions.reduceByKey(_ + _, 4).mapValues(0.15 + 0.85 * _)
      }
      ranks.top(5)(Ordering.by((r: (Int, Double)) => r._2))
    }
    println("RESULT pagerank10 " + top.map { case (node, rank) => f"$node=$rank%.6f" }.mkString(" "))
  }

  /** 100 M longs through map, filter, reduce. */
  private def longs(sc: SparkContext, partitions: Int): Unit = {
    val sum = time("longs100M") {
      sc.range(0L, 100000000L, 1, partitions).map(x => x * 3 + 1).filter(x => (x & 1) == 0).reduce(_ + _)
    }
    println(s"RESULT longs100M $sum")
  }

  private def wordcount(sc: SparkContext, path: String): Unit = {
    val top = time("wordcount") {
      sc.textFile(path)
        .flatMap(_.split(' '))
        .map((_, 1L))
        .reduceByKey(_ + _)
        .top(20)(Ordering.by((count: (String, Long)) => (count._2, count._1)))
    }
    println("RESULT wordcount " + top.map { case (word, n) => s"$word=$n" }.mkString(" "))
  }

  /** Records of an 8-byte key and a 90-character value, generated in the first stage; order is checked. */
  private def sort(sc: SparkContext, records: Int, partitions: Int): Unit = {
    val unsorted = sc.range(0L, records, 1, partitions).map { i => val key = mix(i); (key, value(key)) }
    val checks = time("sort") {
      unsorted
        .sortByKey(true, partitions)
        .mapPartitions { sorted =>
          var (count, ordered, digest, previous) = (0L, true, 0L, Long.MinValue)
          for ((key, value) <- sorted) {
            ordered &= previous <= key
            previous = key
            count += 1
            digest ^= key + value.length
          }
          Iterator((count, ordered, digest))
        }
        .collect()
    }
    val (count, ordered, digest) = checks.reduce((a, b) => (a._1 + b._1, a._2 && b._2, a._3 ^ b._3))
    println(s"RESULT sort n=$count sorted=$ordered xor=$digest")
  }

  /** Each key once on the left; as many rows on the right, whose keys are skewed. */
  private def join(sc: SparkContext, rows: Long, partitions: Int): Unit = {
    val left = sc.range(0L, rows, 1, partitions).map(i => (i, mix(i)))
    val right = sc.range(0L, rows, 1, partitions).map(i => (skewed(mix(i ^ 0x5bd1e995L), rows), i))
    val (count, digest) = time("join") {
      left
        .join(right, partitions)
        .map { case (key, (a, b)) => (1L, key * 31 + (a ^ b)) }
        .reduce((a, b) => (a._1 + b._1, a._2 + b._2))
    }
    println(s"RESULT join n=$count sum=$digest")
  }

  /** Half of the keys evenly from all rows, the other half from the first thousandth, the lower the more often. */
  private def skewed(random: Long, rows: Long): Long = {
    val position = random >>> 1
    if ((random & 1) == 0) position % rows else position % (1 + position % math.max(rows / 1000, 1L))
  }

  /** Pairs into groups, twenty pairs per key on average. */
  private def group(sc: SparkContext, count: Long, partitions: Int): Unit = {
    val keys = math.max(count / 20, 1L)
    val pairs = sc.range(0L, count, 1, partitions).map(i => ((mix(i) >>> 1) % keys, i))
    val (groups, largest, digest) = time("group") {
      pairs
        .groupByKey(partitions)
        .map { case (key, values) => (1L, values.size, key * values.sum) }
        .reduce((a, b) => (a._1 + b._1, math.max(a._2, b._2), a._3 + b._3))
    }
    println(s"RESULT group groups=$groups largest=$largest sum=$digest")
  }

  /** Strings of 16 characters, each drawn from half as many different ones; how many were drawn at all. */
  private def distinct(sc: SparkContext, count: Long, partitions: Int): Unit = {
    val different = math.max(count / 2, 1L)
    // HexFormat, because String.format would take longer than all the rest.
    val strings = sc.range(0L, count, 1, partitions).map { i =>
      HexFormat.of().toHexDigits(mix((mix(i) >>> 1) % different))
    }
    val drawn = time("distinct") { strings.distinct(partitions).count() }
    println(s"RESULT distinct $drawn")
  }

  /** splitmix64: easy to write in any language. */
  private def mix(seed: Long): Long = {
    var z = seed + 0x9e3779b97f4a7c15L
    z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L
    z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL
    z ^ (z >>> 31)
  }

  private val padding =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefghijklmnopqrstuvwxyz"

  private def value(key: Long): String = {
    val hex = java.lang.Long.toHexString(key)
    hex + padding.substring(0, 90 - hex.length)
  }
}
