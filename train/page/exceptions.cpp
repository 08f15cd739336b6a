#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <typeinfo>

// C++ exceptions in WebAssembly: the part of the C++ runtime that libc++abi leaves out if it is
// built without exceptions, as Debian's is for wasm32. The compiler calls these functions; a
// thrown exception travels by WebAssembly's own `throw`. The module has one thread.
// Source: Itanium C++ ABI, "Exception Handling"; for the call-site tables and the landing-pad
// context, llvm/lib/CodeGen/WasmEHPrepare.cpp.

namespace {

struct Exception {
  const std::type_info* type;
  void* (*destroy)(void*);  // destructors return the object here
  std::size_t catches;      // catch blocks that are handling it
  bool rethrown;
  void* caught;     // the object, as the type of the catch block sees it
  Exception* next;  // in the stack of caught exceptions

  void* object() { return this + 1; }
  static Exception* of(void* object) { return static_cast<Exception*>(object) - 1; }
};
static_assert(sizeof(Exception) % 8 == 0, "objects are aligned to 8 bytes");

Exception* caught = nullptr;  // innermost first

[[noreturn]] void raise(Exception* exception) {
  constexpr int kTagOfCpp = 0;
  __builtin_wasm_throw(kTagOfCpp, exception);
}

void release(Exception* exception) {
  if (exception->destroy != nullptr) exception->destroy(exception->object());
  std::free(exception);
}

// Virtual functions of libc++abi's classes of type_info, in its order.
class CatchType : public std::type_info {
 public:
  ~CatchType() override;
  virtual void noop1() const;
  virtual void noop2() const;
  // Returns true if a catch block of this type catches `thrown`; moves `object` to its base class.
  virtual bool can_catch(const CatchType* thrown, void*& object) const = 0;
};

// Reads a number of the tables that the compiler writes for a function: LEB128, in DWARF 5, 7.6.
std::intptr_t read_number(const std::uint8_t*& at, bool is_signed = false) {
  std::uintptr_t value = 0;
  int shift = 0;
  std::uint8_t next;
  do {
    next = *at++;
    value |= static_cast<std::uintptr_t>(next & 0x7f) << shift;
    shift += 7;
  } while ((next & 0x80) != 0);
  if (is_signed && (next & 0x40) != 0 && shift < 32) value |= ~std::uintptr_t{0} << shift;
  return static_cast<std::intptr_t>(value);
}

// Number of the catch block for `exception` among those of landing pad `pad`, as the function's
// table numbers them; 0: none.
std::intptr_t find_catch(const std::uint8_t* at, std::uintptr_t pad, Exception* exception) {
  constexpr std::uint8_t kOmitted = 0xff;
  if (*at++ != kOmitted) read_number(at);
  const CatchType* const* types = nullptr;
  if (*at++ != kOmitted) {
    const std::intptr_t offset = read_number(at);
    types = reinterpret_cast<const CatchType* const*>(at + offset);
  }
  ++at;  // encoding of the call sites
  const std::intptr_t length = read_number(at);
  const std::uint8_t* const actions = at + length;
  std::intptr_t action = 0;
  for (std::uintptr_t i = 0; i <= pad; ++i) {
    read_number(at);  // the landing pad
    action = read_number(at);
  }
  if (action == 0) return 0;
  for (at = actions + action - 1;;) {
    const std::intptr_t type = read_number(at, true);
    if (type > 0) {
      const CatchType* const wanted = types[-type];
      exception->caught = exception->object();
      const auto* const thrown = static_cast<const CatchType*>(exception->type);
      if (wanted == nullptr || wanted->can_catch(thrown, exception->caught)) return type;
    }
    const std::uint8_t* const here = at;
    const std::intptr_t next = read_number(at, true);
    if (next == 0) return 0;
    at = here + next;
  }
}

}  // namespace

extern "C" {

// The compiler writes the first two members before it calls _Unwind_CallPersonality, and reads the
// third.
struct {
  std::uintptr_t pad;
  const std::uint8_t* lsda;
  std::uintptr_t selector;
} __wasm_lpad_context;

int _Unwind_CallPersonality(void* exception) {
  __wasm_lpad_context.selector = static_cast<std::uintptr_t>(find_catch(
      __wasm_lpad_context.lsda, __wasm_lpad_context.pad, static_cast<Exception*>(exception)));
  return 0;
}

int __gxx_wasm_personality_v0() { return 0; }  // named by functions, called by none

void* __cxa_allocate_exception(std::size_t size) {
  void* const memory = std::malloc(sizeof(Exception) + size);
  if (memory == nullptr) std::abort();
  return (new (memory) Exception{})->object();
}

void __cxa_free_exception(void* object) { std::free(Exception::of(object)); }

[[noreturn]] void __cxa_throw(void* object, std::type_info* type, void* (*destroy)(void*)) {
  Exception* const exception = Exception::of(object);
  exception->type = type;
  exception->destroy = destroy;
  raise(exception);
}

void* __cxa_get_exception_ptr(void* thrown) { return static_cast<Exception*>(thrown)->caught; }

void* __cxa_begin_catch(void* thrown) {
  auto* const exception = static_cast<Exception*>(thrown);
  exception->rethrown = false;
  ++exception->catches;
  if (caught != exception) {
    exception->next = caught;
    caught = exception;
  }
  return exception->caught;
}

void __cxa_end_catch() {
  Exception* const exception = caught;
  if (--exception->catches > 0) return;
  caught = exception->next;
  if (!exception->rethrown) release(exception);
}

// Destructor of a thread_local object: the one thread lives as long as the module.
int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }

[[noreturn]] void __cxa_rethrow() {
  if (caught == nullptr) std::abort();
  caught->rethrown = true;
  raise(caught);
}

}  // extern "C"
