// The order of the checks, as a table.

import { expect, test } from 'vitest'
import { type Decision, decide, isAppKey } from '../../../src/request/decide.ts'
import { anApp } from '../apps/apps.ts'

const NOW_MS = Date.UTC(2026, 10, 20, 12)
const active = anApp({ subscription: 'active' })
const PAGE = 'https://a.example'
const named = anApp({ origins: ['https://www.example', PAGE] })
const paused = anApp({ subscription: 'paused' })
const ended = anApp({ subscription: 'trialing', trialEndsAtMs: NOW_MS })

test.each<[Decision, ...Parameters<typeof decide>]>([
  ['no app key', null, 'unknown', false, NOW_MS, null],
  ['no app key', null, active, true, NOW_MS, null],
  ['apps_unread', 'ak_1', 'unavailable', false, NOW_MS, null],
  ['apps_unread', 'ak_1', 'unavailable', true, NOW_MS, null],
  ['invalid_app_key', 'ak_1', 'unknown', false, NOW_MS, null],
  ['invalid_app_key', 'ak_1', 'unknown', true, NOW_MS, null],
  ['subscription_inactive', 'ak_1', paused, false, NOW_MS, null],
  ['subscription_inactive', 'ak_1', paused, true, NOW_MS, null],
  ['trial_expired', 'ak_1', ended, false, NOW_MS, null],
  ['trial_expired', 'ak_1', ended, true, NOW_MS, null],
  ['limits', 'ak_1', ended, true, NOW_MS - 1, null],
  ['foreign_page', 'ak_1', named, true, NOW_MS, 'https://b.example'],
  ['foreign_page', 'ak_1', named, false, NOW_MS, 'null'],
  ['foreign_page', 'ak_1', named, false, NOW_MS, ''],
  ['foreign_page', 'ak_1', { ...paused, origins: [] }, false, NOW_MS, PAGE],
  ['subscription_inactive', 'ak_1', { ...paused, origins: [PAGE] }, true, NOW_MS, PAGE],
  ['limits', 'ak_1', named, true, NOW_MS, PAGE],
  ['limits', 'ak_1', named, true, NOW_MS, null],
  ['limits', 'ak_1', active, true, NOW_MS, 'https://b.example'],
  ['invalid_app_key', 'ak_1', 'unknown', true, NOW_MS, PAGE],
  ['invalid', 'ak_1', active, false, NOW_MS, null],
  ['limits', 'ak_1', active, true, NOW_MS, null],
])('%s', (decision, ...facts) => {
  expect(decide(...facts)).toBe(decision)
})

test('only a text that begins with ak_ is looked up', () => {
  expect(['ak_', 'ak_shop', 'AK_shop', 'shop', '', null].map(isAppKey)).toEqual([
    true,
    true,
    false,
    false,
    false,
    false,
  ])
})
