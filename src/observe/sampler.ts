// Where the gauges get their values: functions that the parts of the service provide, called at each scrape.

/** A gauge whose function is absent has no series, so that alerts on it stay quiet. */
export interface Sampler {
  readonly ringUsedBytes?: () => number
  readonly ringSizeBytes?: () => number
  readonly ringRequests?: () => number
  readonly parserQueue?: () => number
  readonly requestsInFlight?: () => number
  readonly connections?: () => number | undefined
  readonly connectionsMax?: () => number
  readonly keysRemembered?: () => number
  /** Absent with Redis, which takes the keys beyond this maximum. */
  readonly keysMax?: () => number
  readonly journalBytes?: () => number
  readonly journalMaxBytes?: () => number
  /** The same as /readyz. */
  readonly ready?: () => boolean
  readonly draining?: () => boolean
  /** Records in NATS that could not be used. */
  readonly badAppRecords?: () => number
  /** Absent where no Redis is configured. */
  readonly redisUp?: () => boolean
  /** Absent where no NATS is configured. */
  readonly natsUp?: () => boolean
  /** Measured some seconds ago; null: not known. Absent where no NATS is configured. */
  readonly stream?: () => StreamSample | null
  /** null: this node has not audited yet. Absent where no NATS is configured. */
  readonly audit?: () => AuditSample | null
  /** For each part that can work without its dependency: whether it does so now. A closed set of names. */
  readonly degraded?: () => Readonly<Record<string, boolean>>
}

export interface StreamSample {
  readonly bytes: number
  readonly maxBytes: number | null
  readonly oldestSeconds: number
  /** The age at which it drops messages, read or not; null: never. */
  readonly keepSeconds: number | null
  /** For each durable consumer, by name: the age of the first message that it has not acknowledged. */
  readonly consumerLagSeconds: Readonly<Record<string, number>>
}

export interface AuditSample {
  /** null: this node audits no partition. */
  readonly lagSeconds: number | null
  readonly badMessages: number
}
