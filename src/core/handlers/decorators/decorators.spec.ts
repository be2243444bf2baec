import 'reflect-metadata';
import { describe, expect, it } from 'vitest';
import { McpHandlerDefinitionError } from '../handlers.errors.js';
import {
  Complete,
  declarationsOf,
  endpointsOf,
  McpHandlers,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
} from './handler.decorators.js';
import { McpArgs, ROUTE_ARGUMENTS } from './param.decorators.js';

const tool = { name: 'find' };

const kindsOf = (type: { prototype: object }, method: string): string[] =>
  declarationsOf(Reflect.get(type.prototype, method)).map(({ kind }) => kind);

/** The compiler would refuse these. */
const asProperty = (decorator: unknown) => decorator as PropertyDecorator;

describe('handler decorators', () => {
  class Handlers {
    @Tool(tool)
    find(): void {}
    @Resource({ uri: 'a://b', name: 'b' })
    read(): void {}
    @ResourceTemplate({ uriTemplate: 'a://{b}', name: 'b' })
    readOne(): void {}
    @Prompt({ name: 'ask' })
    ask(): void {}
    @Complete({ prompt: 'ask', argument: 'x' })
    complete(): void {}
    none(): void {}
  }

  it('handler decorators write down what they are given', () => {
    expect(declarationsOf(Handlers.prototype.find)).toEqual([{ kind: 'tool', options: tool }]);
    expect(['read', 'readOne', 'ask', 'complete', 'none'].map((name) => kindsOf(Handlers, name))).toEqual([
      ['resource'],
      ['template'],
      ['prompt'],
      ['completion'],
      [],
    ]);
  });

  it('mark the class for Nest, so that request-scoped enhancers are made', () => {
    class Derived extends Handlers {}
    class Other {}
    expect(Reflect.getMetadata('__entryProvider__', Handlers)).toBe(true);
    expect(Reflect.getMetadata('__entryProvider__', Derived)).toBe(true);
    expect(Reflect.getMetadata('__entryProvider__', Other)).toBeUndefined();
  });

  it('handler decorators are inherited with the method, and gone with an override', () => {
    abstract class Base {
      @Tool(tool)
      kept(): void {}
      @Tool(tool)
      overridden(): void {}
    }
    class Derived extends Base {
      override overridden(): void {}
    }
    expect(kindsOf(Derived, 'kept')).toEqual(['tool']);
    expect(kindsOf(Derived, 'overridden')).toEqual([]);
    expect(kindsOf(Base, 'overridden')).toEqual(['tool']);
  });

  it('handler decorators may stand together on a method, in the order of the source', () => {
    class Several {
      @Tool({ name: 'one' })
      @Tool({ name: 'two' })
      @Prompt({ name: 'three' })
      method(): void {}
    }
    expect(declarationsOf(Several.prototype.method).map(({ options }) => (options as typeof tool).name)).toEqual([
      'one',
      'two',
      'three',
    ]);
  });

  it('handler decorators refuse what is no method of instances', () => {
    const symbol = Symbol('secret');
    const decorated: [() => unknown, string][] = [
      [
        () => {
          class BySymbol {
            @Tool(tool)
            [symbol](): void {}
          }
          return BySymbol;
        },
        'The MCP handler BySymbol.Symbol(secret) cannot be served: @Tool() needs a method with a name; this one is a symbol.',
      ],
      [
        () => {
          class Static {
            @Prompt(tool)
            static find(): void {}
          }
          return Static;
        },
        'Static.find cannot be served: @Prompt() belongs on a method of instances, not on a static one.',
      ],
      [
        () => {
          class Accessor {
            @Resource({ uri: 'a://b', name: 'b' })
            get find(): number {
              return 1;
            }
          }
          return Accessor;
        },
        'Accessor.find cannot be served: @Resource() belongs on a method, not on a property or an accessor.',
      ],
      [
        () => {
          class Property {
            @asProperty(Tool(tool))
            find = () => {};
          }
          return Property;
        },
        'Property.find cannot be served: @Tool() belongs on a method',
      ],
      [
        () => {
          class NoOptions {
            @Tool(null as never)
            find(): void {}
          }
          return NoOptions;
        },
        'NoOptions.find cannot be served: @Tool() takes an object of options; got null.',
      ],
      [
        () => {
          const options = { name: 'find', inputschema: { type: 'object' } };
          class Misspelt {
            @Tool(options)
            find(): void {}
          }
          return Misspelt;
        },
        'Misspelt.find cannot be served: @Tool() has no option "inputschema". Did you mean "inputSchema"?',
      ],
      [
        () => {
          const options = { prompt: 'review', argument: 'language', colour: 'red' };
          class Unknown {
            @Complete(options)
            languages(): string[] {
              return [];
            }
          }
          return Unknown;
        },
        '@Complete() has no option "colour". The options are: prompt, template, argument.',
      ],
    ];
    for (const [decorate, message] of decorated) {
      expect(decorate).toThrow(McpHandlerDefinitionError);
      expect(decorate).toThrow(message);
    }
  });
});

describe('@Complete', () => {
  const parameters = (type: object, method: string): object[] =>
    Object.values((Reflect.getMetadata(ROUTE_ARGUMENTS, type, method) ?? {}) as object);

  it('@Complete gives a method value, others and context', () => {
    class Completing {
      @Complete({ prompt: 'ask', argument: 'x' })
      complete(): void {}
    }
    expect(parameters(Completing, 'complete')).toMatchObject([
      { index: 0, data: 'value' },
      { index: 1, data: 'others' },
      { index: 2 },
    ]);
  });

  it('@Complete leaves a method that says itself what it gets', () => {
    class Completing {
      @Complete({ prompt: 'ask', argument: 'x' })
      complete(@McpArgs('value') value: string): string {
        return value;
      }
    }
    expect(parameters(Completing, 'complete')).toMatchObject([{ index: 0, data: 'value' }]);
  });
});

describe('@McpHandlers', () => {
  it.each([undefined, [], [undefined], 5])('@McpHandlers refuses %j as a name', (endpoint) => {
    expect(() => McpHandlers({ endpoint } as never)(class Marked {})).toThrow(
      'Marked cannot be served: @McpHandlers() takes the name of an endpoint',
    );
  });

  it('@McpHandlers says to which endpoints a class belongs', () => {
    @McpHandlers({ endpoint: 'admin' })
    class One {}
    @McpHandlers({ endpoint: ['admin', 'public'] })
    class Two {}
    class Derived extends One {}
    expect([One, Two, Derived, class {}].map(endpointsOf)).toEqual([['admin'], ['admin', 'public'], ['admin'], []]);
  });
});
