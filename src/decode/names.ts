// Recognises the names of members where they lie, by comparing them four bytes at a time. The last comparison of
// each name takes in its closing quote, and may overlap the one before it, so that none reads past the name.

// Members of an event. Each number indexes the tables of the scanner, and is a bit in its set of members seen.
export const TYPE = 0
export const NAME = 1
export const DAILY_ID = 2
export const MONTHLY_ID = 3
export const RETENTION_ID = 4
export const SESSION_ID = 5
export const TIMESTAMP = 6
export const CONTEXT = 7
export const PROPERTIES = 8
export const USER_ID = 9
export const REVENUE = 10
/** Bytes of the name of each. */
export const EVENT_NAME_BYTES = Uint8Array.of(4, 4, 15, 17, 19, 10, 9, 7, 10, 7, 7)

// Members of a context.
export const OS = 0
export const OS_VERSION = 1
export const APP_VERSION = 2
export const LOCALE = 3
export const DEVICE_TYPE = 4
export const SCREEN_WIDTH = 5
export const SCREEN_HEIGHT = 6
export const CONTEXT_NAME_BYTES = Uint8Array.of(2, 10, 11, 6, 11, 12, 13)

// Members of the body.
export const APP_KEY = 0
export const SDK_VERSION = 1
export const EVENTS = 2
export const BODY_NAME_BYTES = Uint8Array.of(7, 11, 6)

/** No member that the schema names, as long as no character of the name is escaped. */
export const UNKNOWN = 31

/** Four ASCII characters as the word that reading them from memory gives. */
export function fourBytes(characters: string): number {
  return new DataView(Uint8Array.from(Buffer.from(characters, 'latin1')).buffer).getInt32(0, true)
}

const TYPE_0 = fourBytes('type')
const TYPE_1 = fourBytes('ype"')
const NAME_0 = fourBytes('name')
const NAME_1 = fourBytes('ame"')
const HASHED_0 = fourBytes('hash')
const DAILY_4 = fourBytes('ed_d')
const DAILY_8 = fourBytes('aily')
const DAILY_12 = fourBytes('_id"')
const MONTHLY_4 = fourBytes('ed_m')
const MONTHLY_8 = fourBytes('onth')
const MONTHLY_12 = fourBytes('ly_i')
const MONTHLY_14 = fourBytes('_id"')
const RETENTION_4 = fourBytes('ed_r')
const RETENTION_8 = fourBytes('eten')
const RETENTION_12 = fourBytes('tion')
const RETENTION_16 = fourBytes('_id"')
const SESSION_0 = fourBytes('sess')
const SESSION_4 = fourBytes('ion_')
const SESSION_7 = fourBytes('_id"')
const TIMESTAMP_0 = fourBytes('time')
const TIMESTAMP_4 = fourBytes('stam')
const TIMESTAMP_6 = fourBytes('amp"')
const CONTEXT_0 = fourBytes('cont')
const CONTEXT_4 = fourBytes('ext"')
const PROPERTIES_0 = fourBytes('prop')
const PROPERTIES_4 = fourBytes('erti')
const PROPERTIES_7 = fourBytes('ies"')
const USER_0 = fourBytes('user')
const USER_4 = fourBytes('_id"')
const REVENUE_0 = fourBytes('reve')
const REVENUE_4 = fourBytes('nue"')

/** Which member of an event is named by what begins at `p`, after the opening quote. */
export function eventMember(view: DataView, p: number): number {
  switch (view.getInt32(p, true)) {
    case TYPE_0:
      return word(view, p + 1) === TYPE_1 ? TYPE : UNKNOWN
    case NAME_0:
      return word(view, p + 1) === NAME_1 ? NAME : UNKNOWN
    case HASHED_0:
      return hashMember(view, p)
    case SESSION_0:
      return word(view, p + 4) === SESSION_4 && word(view, p + 7) === SESSION_7 ? SESSION_ID : UNKNOWN
    case TIMESTAMP_0:
      return word(view, p + 4) === TIMESTAMP_4 && word(view, p + 6) === TIMESTAMP_6 ? TIMESTAMP : UNKNOWN
    case CONTEXT_0:
      return word(view, p + 4) === CONTEXT_4 ? CONTEXT : UNKNOWN
    case PROPERTIES_0:
      return word(view, p + 4) === PROPERTIES_4 && word(view, p + 7) === PROPERTIES_7 ? PROPERTIES : UNKNOWN
    case USER_0:
      return word(view, p + 4) === USER_4 ? USER_ID : UNKNOWN
    case REVENUE_0:
      return word(view, p + 4) === REVENUE_4 ? REVENUE : UNKNOWN
    default:
      return UNKNOWN
  }
}

function hashMember(view: DataView, p: number): number {
  switch (word(view, p + 4)) {
    case DAILY_4:
      return word(view, p + 8) === DAILY_8 && word(view, p + 12) === DAILY_12 ? DAILY_ID : UNKNOWN
    case MONTHLY_4:
      return word(view, p + 8) === MONTHLY_8 && word(view, p + 12) === MONTHLY_12 && word(view, p + 14) === MONTHLY_14
        ? MONTHLY_ID
        : UNKNOWN
    case RETENTION_4:
      return word(view, p + 8) === RETENTION_8 &&
        word(view, p + 12) === RETENTION_12 &&
        word(view, p + 16) === RETENTION_16
        ? RETENTION_ID
        : UNKNOWN
    default:
      return UNKNOWN
  }
}

const OS_MASK = 0xffffff
const OS_0 = fourBytes('os"\0')
const OS_VERSION_0 = fourBytes('os_v')
const OS_VERSION_4 = fourBytes('ersi')
const OS_VERSION_7 = fourBytes('ion"')
const APP_VERSION_0 = fourBytes('app_')
const APP_VERSION_4 = fourBytes('vers')
const APP_VERSION_8 = fourBytes('ion"')
const LOCALE_0 = fourBytes('loca')
const LOCALE_3 = fourBytes('ale"')
const DEVICE_TYPE_0 = fourBytes('devi')
const DEVICE_TYPE_4 = fourBytes('ce_t')
const DEVICE_TYPE_8 = fourBytes('ype"')
const SCREEN_0 = fourBytes('scre')
const WIDTH_4 = fourBytes('en_w')
const WIDTH_8 = fourBytes('idth')
const WIDTH_9 = fourBytes('dth"')
const HEIGHT_4 = fourBytes('en_h')
const HEIGHT_8 = fourBytes('eigh')
const HEIGHT_10 = fourBytes('ght"')

/** Which member of a context is named by what begins at `p`. */
export function contextMember(view: DataView, p: number): number {
  const first = word(view, p)
  if ((first & OS_MASK) === OS_0) return OS
  switch (first) {
    case OS_VERSION_0:
      return word(view, p + 4) === OS_VERSION_4 && word(view, p + 7) === OS_VERSION_7 ? OS_VERSION : UNKNOWN
    case APP_VERSION_0:
      return word(view, p + 4) === APP_VERSION_4 && word(view, p + 8) === APP_VERSION_8 ? APP_VERSION : UNKNOWN
    case LOCALE_0:
      return word(view, p + 3) === LOCALE_3 ? LOCALE : UNKNOWN
    case DEVICE_TYPE_0:
      return word(view, p + 4) === DEVICE_TYPE_4 && word(view, p + 8) === DEVICE_TYPE_8 ? DEVICE_TYPE : UNKNOWN
    case SCREEN_0:
      return screenMember(view, p)
    default:
      return UNKNOWN
  }
}

function screenMember(view: DataView, p: number): number {
  switch (word(view, p + 4)) {
    case WIDTH_4:
      return word(view, p + 8) === WIDTH_8 && word(view, p + 9) === WIDTH_9 ? SCREEN_WIDTH : UNKNOWN
    case HEIGHT_4:
      return word(view, p + 8) === HEIGHT_8 && word(view, p + 10) === HEIGHT_10 ? SCREEN_HEIGHT : UNKNOWN
    default:
      return UNKNOWN
  }
}

const APP_KEY_0 = fourBytes('app_')
const APP_KEY_4 = fourBytes('key"')
const SDK_VERSION_0 = fourBytes('sdk_')
const SDK_VERSION_4 = fourBytes('vers')
const SDK_VERSION_8 = fourBytes('ion"')
const EVENTS_0 = fourBytes('even')
const EVENTS_3 = fourBytes('nts"')

/** Which member of the body is named by what begins at `p`. */
export function bodyMember(view: DataView, p: number): number {
  switch (word(view, p)) {
    case APP_KEY_0:
      return word(view, p + 4) === APP_KEY_4 ? APP_KEY : UNKNOWN
    case SDK_VERSION_0:
      return word(view, p + 4) === SDK_VERSION_4 && word(view, p + 8) === SDK_VERSION_8 ? SDK_VERSION : UNKNOWN
    case EVENTS_0:
      return word(view, p + 3) === EVENTS_3 ? EVENTS : UNKNOWN
    default:
      return UNKNOWN
  }
}

function word(view: DataView, p: number): number {
  return view.getInt32(p, true)
}
