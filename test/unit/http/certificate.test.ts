import { expect, it } from 'vitest'
import { type Certificate, CertificateWatch } from '../../../src/http/certificate.ts'
import { ManualTimers } from '../../support/timers.ts'

const FILES = { certFile: '/cert.pem', keyFile: '/key.pem' }
const YEAR_MS = 365 * 86_400_000
const certificate = (digest: string): Certificate => ({ digest, notAfterMs: YEAR_MS })

/** Each read waits until the test answers it. */
function watched() {
  const timers = new ManualTimers()
  const reads: ((found: Certificate) => void)[] = []
  const used: string[] = []
  const notices: string[] = []
  const watch = new CertificateWatch(certificate('first'), {
    files: FILES,
    timers,
    read: () => new Promise((done) => reads.push(done)),
    use: async () => void used.push('used'),
    onNotice: (text) => notices.push(text),
  })
  return { timers, reads, used, notices, watch }
}

it('a read that hangs is given up after 10 s, and the next one is used', async () => {
  const { timers, reads, used, notices } = watched()
  await timers.pass(3000)
  expect(reads).toHaveLength(1)
  await timers.pass(13_000)
  expect(reads).toHaveLength(2)
  reads[1](certificate('second'))
  await timers.pass(0)
  expect(used).toEqual(['used'])
  expect(notices).toEqual([expect.stringContaining('/cert.pem was read again')])
})

it('two that hang are all: a third waits until one of them is answered, also where it is asked for', async () => {
  const { timers, reads, used, notices, watch } = watched()
  await timers.pass(60_000)
  void watch.look(true)
  await timers.pass(60_000)
  expect(reads).toHaveLength(2)
  expect(notices).toEqual([expect.stringMatching(/no answer from the disk in 10 s; new connections go on/)])
  reads[0](certificate('late'))
  await timers.pass(3000)
  expect(used).toEqual([])
  reads[2](certificate('second'))
  await timers.pass(0)
  expect(used).toEqual(['used'])
})
