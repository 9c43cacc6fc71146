// The rows of the schema, through every decoder at once.

import { expect, test } from 'vitest'
import { NOT_JSON } from '../../cases/json.ts'
import { schemaCases } from '../../cases/schema.ts'
import { NOW_MS } from './bodies.ts'
import { judge } from './oracle.ts'

test.each(schemaCases(NOW_MS))('%s', (_claim, body, says) => {
  const { validation, scanned } = judge(Buffer.from(body))
  if (validation.kind === 'accepted') return expect(scanned ? 'accepted' : 'accepted slowly').toBe(says)
  expect(validation.message.replace(/ at byte \d+$/, '')).toBe(says)
  expect(validation.code).toBe(/^body: (?!must be)/.test(says) ? 'invalid_json' : 'validation_failed')
  expect(says === NOT_JSON).toBe(/ at byte \d+$/.test(validation.message))
})
