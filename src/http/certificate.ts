// The certificate of the public port: read at the start, looked at every few seconds, and used for new connections once
// its files have changed. Files that cannot be used leave the last good ones in force.

import { createHash, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { errorMessage } from '../lib/errors.ts'
import type { OnNotice } from '../lib/notice.ts'
import { DAY_MS } from '../lib/spans.ts'
import { sleep, type Timer, type Timers } from '../lib/timers.ts'
import { readSettingFile } from '../lib/value-file.ts'

/** A change holds within 10 s, also where the first look finds only one of the two files changed. */
const LOOK_INTERVAL_MS = 3000
/** Of a read, against a disk that hangs. */
const READ_TIMEOUT_MS = 10_000
/** Reads without an answer, each of which keeps one of libuv's four threads. */
const MAX_UNANSWERED = 2
/** From then on its end is warned of, once a day. */
export const EXPIRY_WARNING_DAYS = 14

export interface TlsFiles {
  readonly certFile: string
  readonly keyFile: string
}

export interface Certificate {
  /** Of both files. */
  readonly digest: string
  /** Unix ms. */
  readonly notAfterMs: number
}

/** Rejects with an Error that names the files, where they are no certificate and its key. */
export async function readCertificate({ certFile, keyFile }: TlsFiles): Promise<Certificate> {
  try {
    // One after the other: a disk that hangs keeps one thread of libuv.
    const cert = await readSettingFile(certFile)
    const key = await readSettingFile(keyFile)
    createSecureContext({ cert, key })
    return {
      digest: createHash('sha256').update(cert).update('\0').update(key).digest('hex'),
      notAfterMs: Date.parse(new X509Certificate(cert).validTo),
    }
  } catch (error) {
    throw new Error(`${certFile} and ${keyFile} do not work together: ${errorMessage(error)}`, { cause: error })
  }
}

export interface CertificateWatchOptions {
  readonly files: TlsFiles
  readonly timers: Timers
  readonly read?: typeof readCertificate
  /** Uses the files for new connections. Throws where the engine refuses them. */
  readonly use: () => Promise<void>
  readonly onNotice: OnNotice
}

/** `first`: what is in force at the start. */
export class CertificateWatch {
  readonly #options: CertificateWatchOptions
  readonly #timer: Timer
  #inForce: Certificate
  /** Why the files could not be used at the last look, and whether that was logged. */
  #problem: { readonly text: string; isTold: boolean } | null = null
  #warnedAtMs = Number.NEGATIVE_INFINITY
  #looking: Promise<void> | null = null
  #unanswered = 0

  constructor(first: Certificate, options: CertificateWatchOptions) {
    this.#inForce = first
    this.#options = options
    this.#timer = options.timers.setInterval(() => void this.look(), LOOK_INTERVAL_MS)
    this.#timer.unref()
    this.#warn()
  }

  /** Unix s. */
  get notAfterSeconds(): number {
    return Math.floor(this.#inForce.notAfterMs / 1000)
  }

  /** `isAsked`: what is wrong is logged at once. Otherwise at the second look, since one file may be written before the other. */
  async look(isAsked = false): Promise<void> {
    if (this.#looking !== null && !isAsked) return
    await this.#looking
    this.#looking = this.#look(isAsked).finally(() => (this.#looking = null))
    await this.#looking
  }

  stop(): void {
    this.#options.timers.clear(this.#timer)
  }

  async #look(isAsked: boolean): Promise<void> {
    try {
      const found = await this.#read()
      if (found.digest !== this.#inForce.digest) await this.#use(found)
      this.#problem = null
    } catch (error) {
      this.#failed(errorMessage(error), isAsked)
    }
    this.#warn()
  }

  async #read(): Promise<Certificate> {
    const { files, timers, read = readCertificate } = this.#options
    const late = `${files.certFile} and ${files.keyFile}: no answer from the disk in ${READ_TIMEOUT_MS / 1000} s`
    if (this.#unanswered >= MAX_UNANSWERED) throw new Error(late)
    this.#unanswered += 1
    const reading = read(files).finally(() => (this.#unanswered -= 1))
    const over = new AbortController()
    const timeout = sleep(timers, READ_TIMEOUT_MS, over.signal).then(() => Promise.reject(new Error(late)))
    return Promise.race([reading, timeout]).finally(() => over.abort())
  }

  async #use(found: Certificate): Promise<void> {
    const { files, use, onNotice } = this.#options
    await use()
    this.#inForce = found
    this.#warnedAtMs = Number.NEGATIVE_INFINITY
    const until = new Date(found.notAfterMs).toISOString()
    onNotice(`${files.certFile} was read again: new connections get this certificate, which ends on ${until}`, 'info')
  }

  #failed(text: string, isAsked: boolean): void {
    const isSame = this.#problem?.text === text
    const isTold = isSame && this.#problem?.isTold === true
    this.#problem = { text, isTold: isTold || isSame || isAsked }
    if (isTold || !this.#problem.isTold) return
    this.#options.onNotice(`${text}; new connections go on with the certificate read before`, 'error')
  }

  #warn(): void {
    const { files, timers, onNotice } = this.#options
    const { notAfterMs } = this.#inForce
    const leftMs = notAfterMs - timers.nowMs()
    if (leftMs > EXPIRY_WARNING_DAYS * DAY_MS || timers.monotonicMs() < this.#warnedAtMs + DAY_MS) return
    this.#warnedAtMs = timers.monotonicMs()
    const when = new Date(notAfterMs).toISOString()
    const advice = 'write a new one to the same files; no restart is needed'
    if (leftMs <= 0)
      onNotice(`the certificate ${files.certFile} ended on ${when}: clients refuse it; ${advice}`, 'error')
    else onNotice(`the certificate ${files.certFile} ends on ${when}; ${advice}`)
  }
}
