# Builds a Tidegate plugin written in C. A Makefile beside the sources says what, and includes this file:
#
#     NAME = mask-numbers
#     SOURCES = mask_numbers.c
#     include ../../../plugins/c/plugin.mk
#
# CC is a C compiler for WebAssembly with a C library: zig's (`pip install ziglang==0.17.1`), or clang with the WASI SDK.
# TIDEGATE is the program `tidegate`, OUT the component that is made.

CC = python3 -m ziglang cc
TIDEGATE = tidegate
OUT = $(NAME).wasm

BINDINGS := $(dir $(lastword $(MAKEFILE_LIST)))
CORE = $(OUT:.wasm=.core.wasm)
# A library for a host that calls it (a "reactor"), not a program with a main; with 256 KiB of stack in place of 16 MiB, which each
# instance would begin with.
CFLAGS = -target wasm32-wasi -mexec-model=reactor -O2 -s -Wl,-z,stack-size=262144 -std=c11 -Wall -Wextra -Werror

$(OUT): $(SOURCES) $(wildcard $(BINDINGS)*)
	$(CC) $(CFLAGS) -I $(BINDINGS) $(SOURCES) $(BINDINGS)plugin.c $(BINDINGS)plugin_component_type.o -o $(CORE)
	$(TIDEGATE) componentize $(CORE) -o $(OUT)

.PHONY: clean
clean:
	rm -f $(OUT) $(CORE)
