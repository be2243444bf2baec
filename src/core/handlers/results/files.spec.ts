import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { StreamableFile } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { McpHandlerResultError } from '../handlers.errors.js';
import {
  audio,
  file,
  type FileSource,
  image,
  jsonWithoutFiles,
  resourceLink,
  TooManyBytes,
  text,
  withFilesRead,
} from './files.js';

const PNG = Buffer.from('89504e470d0a1a0a00', 'hex');
const WAV = Buffer.from('RIFF....WAVEfmt ');
const png = { type: 'image', data: PNG.toString('base64'), mimeType: 'image/png' };

const NEVER = new AbortController().signal;
const read = (value: unknown, maxBytes = Infinity, as: 'blocks' | 'contents' = 'blocks') =>
  withFilesRead(value, { as, maxBytes, signal: () => NEVER });

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'files-'));
  writeFileSync(join(folder, 'logo'), PNG);
  writeFileSync(join(folder, 'report.pdf'), '%PDF-1.7');
  writeFileSync(join(folder, 'größe.csv'), 'a;b');
});
afterAll(() => rmSync(folder, { recursive: true }));

describe('image()', () => {
  const sources: readonly [string, () => FileSource][] = [
    ['a Buffer', () => PNG],
    ['a Uint8Array', () => new Uint8Array(PNG)],
    ['an ArrayBuffer', () => new Uint8Array(PNG).buffer],
    ['a Blob', () => new Blob([new Uint8Array(PNG)])],
    ['a stream of Node', () => Readable.from([PNG.subarray(0, 3), PNG.subarray(3)])],
    ['a web stream', () => new Blob([new Uint8Array(PNG)]).stream()],
    ['a StreamableFile', () => new StreamableFile(PNG)],
    ['a path', () => join(folder, 'logo')],
    ['a file URL', () => pathToFileURL(join(folder, 'logo'))],
    ['the text of a file URL', () => pathToFileURL(join(folder, 'logo')).href],
    ['a data URL', () => `data:image/png;base64,${png.data}`],
  ];
  it.each(sources)('image() makes an image block of %s', async (_name, source) => {
    expect(await read(image(source()))).toEqual(png);
  });

  it('image() says the media type that it is given, and for whom the image is', async () => {
    const annotations = { audience: ['user' as const] };
    const svg = image(Buffer.from('…'), { mimeType: 'image/svg+xml', annotations });
    expect(await read(svg)).toMatchObject({ type: 'image', mimeType: 'image/svg+xml', annotations });
  });

  it('image() refuses what is no image when the result is made, with what to do', async () => {
    await expect(read(image(WAV))).rejects.toThrow(McpHandlerResultError);
    await expect(read(image(WAV))).rejects.toThrow('that is of the type "audio/wav". Say what it is');
    await expect(read(image(Buffer.from('?')))).rejects.toThrow('does not begin like a file of a known type');
    await expect(read(image(join(folder, 'missing.png')))).rejects.toThrow('could not be read; see the cause');
  });

  it('image() refuses a source that is none at once', () => {
    for (const source of [null, undefined, 5, {}]) expect(() => image(source as never)).toThrow('Give bytes');
    for (const url of ['https://example.com/a.png', new URL('http://169.254.169.254/')])
      expect(() => image(url)).toThrow('Fetch it yourself');
  });
});

describe('audio(), file(), text() and resourceLink()', () => {
  it('audio(), file(), text() and resourceLink() make the blocks of the specification', async () => {
    expect(await read(audio(WAV))).toEqual({ type: 'audio', data: WAV.toString('base64'), mimeType: 'audio/wav' });
    expect(await read(file(join(folder, 'größe.csv')))).toEqual({
      type: 'resource',
      resource: { uri: 'attachment:///gr%C3%B6%C3%9Fe.csv', mimeType: 'text/csv', text: 'a;b' },
    });
    expect(await read(file(join(folder, 'report.pdf'), { uri: 'reports://1' }))).toMatchObject({
      resource: { uri: 'reports://1', mimeType: 'application/pdf', blob: 'JVBERi0xLjc=' },
    });
    expect(await read(file(Buffer.from([0xff, 0x00]), { name: 'a.txt' }))).toMatchObject({
      resource: { mimeType: 'text/plain', blob: '/wA=' },
    });
    expect(await read(file(Buffer.from('a'), { name: 'notes' }))).toMatchObject({
      resource: { mimeType: 'text/plain', text: 'a' },
    });
    expect(await read(file(Buffer.from([0xff, 0x00]), { name: 'notes' }))).toMatchObject({
      resource: { mimeType: 'application/octet-stream', blob: '/wA=' },
    });
    expect(text('a')).toEqual({ type: 'text', text: 'a' });
    expect(resourceLink('orders://1/lines')).toEqual({ type: 'resource_link', uri: 'orders://1/lines', name: 'lines' });
  });
});

describe('the files of a result', () => {
  it('the files of a result may be several, beside other content, in an array, in a result and in messages', async () => {
    const blocks = [text('a'), png, png];
    expect(await read([text('a'), image(PNG), image(PNG)])).toEqual(blocks);
    expect(await read({ content: [text('a'), image(PNG), image(PNG)], isError: false })).toEqual({
      content: blocks,
      isError: false,
    });
    expect(await read([{ role: 'user', content: image(PNG) }])).toEqual([{ role: 'user', content: png }]);
  });

  it('the files of a result are contents in a resource, with a text as text', async () => {
    expect(await read(image(PNG), Infinity, 'contents')).toEqual({ mimeType: 'image/png', blob: png.data });
    expect(
      await read(new StreamableFile(Buffer.from('{}'), { type: 'application/json' }), Infinity, 'contents'),
    ).toEqual({ mimeType: 'application/json', text: '{}' });
  });

  it('the files of a result may be what a route returns: a StreamableFile is shown by its type', async () => {
    expect(await read(new StreamableFile(PNG, { type: 'image/png' }))).toEqual(png);
    const disposition = 'attachment; filename="a.csv"';
    expect(await read(new StreamableFile(Buffer.from('1;2'), { type: 'text/csv', disposition }))).toMatchObject({
      resource: { uri: 'attachment:///a.csv', mimeType: 'text/csv', text: '1;2' },
    });
  });

  it('the files of a result are encoded where a content block, or contents, has bytes', async () => {
    expect(await read({ type: 'image', data: PNG, mimeType: 'image/x' })).toEqual({ ...png, mimeType: 'image/x' });
    expect(await read([{ type: 'image', data: new Uint8Array(PNG) }])).toEqual([png]);
    const resource = { uri: 'a:b', blob: PNG };
    expect(await read({ type: 'resource', resource })).toEqual({
      type: 'resource',
      resource: { uri: 'a:b', blob: png.data },
    });
    expect(await read({ contents: [{ uri: 'a:b', blob: PNG }] })).toEqual({
      contents: [{ uri: 'a:b', blob: png.data }],
    });
  });

  it('the files of a result are not read beyond the maximum of the result', async () => {
    let pulled = 0;
    const endless = new Readable({
      read() {
        pulled++;
        this.push(Buffer.alloc(1_000));
      },
    });
    await expect(read([image(PNG), file(endless)], 10_000)).resolves.toBeInstanceOf(TooManyBytes);
    expect(endless.destroyed).toBe(true);
    expect(pulled).toBeLessThan(200);
    const unread = new Readable({ read: () => expect.unreachable() });
    await expect(read([file(Buffer.alloc(11_000)), file(unread)], 10_000)).resolves.toBeInstanceOf(TooManyBytes);
  });

  it('the files of a result are closed without being read when another one cannot be sent', async () => {
    const [beyond, after] = [Readable.from(['b']), Readable.from(['a'])];
    await expect(read([file(Buffer.alloc(11_000)), file(beyond)], 10_000)).resolves.toBeInstanceOf(TooManyBytes);
    await expect(read({ content: [file(join(folder, 'missing')), new StreamableFile(after)] })).rejects.toThrow(
      'could not be read',
    );
    expect([beyond.destroyed, after.destroyed]).toEqual([true, true]);
  });

  it('the files of a result may fail before their turn to be read comes', async () => {
    const slow = Readable.from(
      (async function* () {
        yield await new Promise((resolve) => setImmediate(resolve, 'slow'));
      })(),
    );
    const failing = new Readable({ read: () => {} });
    const reading = read([file(slow), file(failing)]);
    failing.destroy(new Error('gone'));
    await expect(reading).rejects.toMatchObject({ cause: { message: 'gone' } });
  });

  it('the files of a result are read again when a handler returns the same one again, but for streams', async () => {
    for (const source of [PNG, new Blob([new Uint8Array(PNG)]), join(folder, 'logo'), image(PNG)]) {
      const kept = image(source);
      expect([await read(kept), await read(kept), await read([kept, kept])]).toEqual([png, png, [png, png]]);
    }
    for (const kept of [file(Readable.from([PNG])), file(new Blob(['a']).stream()), new StreamableFile(PNG)]) {
      await read(kept);
      await expect(read(kept)).rejects.toThrow('whose stream has been read before');
    }
  });

  it('the files of a result are named in the JSON of a log, and refused in that of a result, which would have nothing of them', () => {
    const result = { name: 'a', picture: image(PNG) };
    expect(JSON.stringify(result)).toBe('{"name":"a","picture":"image(…)"}');
    expect(() => jsonWithoutFiles(result)).toThrow('inside an object. Return it as content');
  });

  it('the files of a result are no longer read when the call is over', async () => {
    const call = new AbortController();
    const silent = new Readable({ read: () => {} });
    const reading = withFilesRead(file(silent), {
      as: 'blocks',
      maxBytes: Infinity,
      signal: () => call.signal,
    }) as Promise<unknown>;
    call.abort(new Error('cancelled'));
    await expect(reading).rejects.toThrow('aborted');
    expect(silent.destroyed).toBe(true);
  });

  it('the files of a result leave a result without files as it is', () => {
    for (const value of [undefined, 'a', { type: 'image', url: 'x' }, [{ data: PNG }], { content: 'a' }]) {
      expect(read(value)).toBe(value);
    }
  });
});
