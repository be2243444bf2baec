import { describe, expect, it } from 'vitest';
import { MEBIBYTE, memoryAtRest } from '../../../test/support/memory.js';
import { SENSITIVE_NAMES, SensitiveNames } from './sensitive-names.js';

const names = new SensitiveNames(SENSITIVE_NAMES);

describe('sensitive names', () => {
  it('sensitive names are found however they are written', () => {
    const given =
      'password newPassword new_password newpassword password2 passwordConfirmation passwords passwd pwd x-api-key apiKey APIKey API_KEY apikey private_key privateKey AWSAccessKeyId X-Access_Token accesstoken id_token idToken tokenOfUser clientSecret secrets Secret cookie Set-Cookie bearer authorization Proxy-Authorization credentials';
    expect([...given.split(' '), 'api key', 'the Private  Key'].filter((name) => !names.has(name))).toEqual([]);
  });

  it('sensitive names are no parts of other words', () => {
    const given = 'maxTokens tokenizer passwordless secretary key apiKind author bear pass';
    expect([...given.split(' '), ''].filter((name) => names.has(name))).toEqual([]);
  });

  it('sensitive names of an app are words too, of any script; short ones have a boundary', () => {
    const own = new SensitiveNames(['pin', 'IBAN', 'Кодовое слово', '***']);
    const given = ['pin', 'userPin', 'spin', 'shipping', 'customeriban', 'iban', 'кодовое_слово', 'слово', 'password'];
    expect(given.filter((name) => own.has(name))).toEqual(['pin', 'userPin', 'iban', 'кодовое_слово']);
    expect(new SensitiveNames([]).has('password')).toBe(false);
  });

  it('sensitive names have no values in texts, and neither have URLs and schemes of authorization', () => {
    const texts = [
      ['https://ann:hun@ter2@host/path?x=1', 'https://ann:[redacted]@host/path?x=1'],
      [
        'postgres://app:s3cret@db:5432/orders and amqp://u:p@q',
        'postgres://app:[redacted]@db:5432/orders and amqp://u:[redacted]@q',
      ],
      ['https://host:8080/a@b', 'https://host:8080/a@b'],
      [
        'https://host/cb?access_token=abc&order=5#id_token=xyz',
        'https://host/cb?access_token=[redacted]&order=5#id_token=[redacted]',
      ],
      ['https://host/?api%5Fkey=abc&maxTokens=5', 'https://host/?api%5Fkey=[redacted]&maxTokens=5'],
      ['password = hunter2; order=5', 'password = [redacted]; order=5'],
      [
        `curl -H "Authorization: Basic abc" -H 'X-Api-Key: k' https://host`,
        `curl -H "Authorization: [redacted]" -H 'X-Api-Key: [redacted]' https://host`,
      ],
      ['Cookie: a="b"; c=d\nOrder: 5', 'Cookie: [redacted]\nOrder: 5'],
      ['Authorization: Digest username="ann", response="abc"', 'Authorization: [redacted]'],
      ['authorization=Bearer abc', 'authorization=[redacted]'],
      ['user[password]=a&token[]=b&order=5', 'user[password]=[redacted]&token[]=[redacted]&order=5'],
      [
        String.raw`sent {\"password\":\"hunter2\",\"order\":5}`,
        String.raw`sent {\"password\":\"[redacted]\",\"order\":5}`,
      ],
      ['Cookie: a=b; c=d\nOrder: 5', 'Cookie: [redacted]\nOrder: 5'],
      [`{ password: "hun\\"ter2", order: 5 }`, `{ password: "[redacted]", order: 5 }`],
      ['the header is Bearer eyJhbGciOi.abc-1_2= here', 'the header is Bearer [redacted] here'],
      ['Basic dXNlcjpwYXNz', 'Basic [redacted]'],
      ['Basic information about bearer certificates', 'Basic information about bearer certificates'],
      ['secret://vault/path at 12:30', 'secret://vault/path at 12:30'],
      ['a = b == c :: d', 'a = b == c :: d'],
    ] as const;
    for (const [text, expected] of texts) {
      expect(names.withoutValues(text)).toBe(expected);
      expect(names.withoutValues(expected)).toBe(expected);
    }
  });

  it('sensitive names that are remembered keep no text in memory in which they were found', async () => {
    const before = await memoryAtRest();
    for (let call = 0; call < 40; call++) {
      const text = `%zz-the-name-of-call-${call}=x ${String(call % 10).repeat(MEBIBYTE)}`;
      expect(names.withoutValues(text.slice(0, 1_000))).toBe(text.slice(0, 1_000));
      expect(names.has(text.slice(0, 30))).toBe(false);
    }
    expect((await memoryAtRest()) - before).toBeLessThan(10 * MEBIBYTE);
  });

  it('sensitive names are found in texts in linear time', () => {
    const cpu = process.cpuUsage();
    for (const part of [
      'a',
      '=',
      ':',
      '://',
      '://a:',
      'token=',
      'token="',
      'x ',
      'bearer ',
      '%',
      'aA1',
      '\\"',
      '\\',
      'token=\\',
      'token: a="',
      `${'a'.repeat(254)}!=`,
    ]) {
      names.withoutValues(part.repeat(72_000 / part.length));
      names.has(part.repeat(72_000 / part.length));
    }
    expect(process.cpuUsage(cpu).user).toBeLessThan(2_000_000);
  });
});
